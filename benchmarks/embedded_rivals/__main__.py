"""Prints a table of brokers for tests: `python -m benchmarks.embedded_rivals`."""

from __future__ import annotations

import os
import platform
import sys

from benchmarks.embedded_rivals.cases import CASES, IDLE, IDLE_SHARE_MAX, Case, Found, Rival
from benchmarks.embedded_rivals.others import Apache, Kfake, MockCluster
from benchmarks.embedded_rivals.pykbroker import PyKBroker

RIVALS: dict[str, type[Rival]] = {
    "pykbroker": PyKBroker,
    "kfake": Kfake,
    "mock": MockCluster,
    "apache": Apache,
}


def main(names: list[str]) -> int:
    rivals = [RIVALS[name]() for name in names or RIVALS]
    found = {rival.name: rival.measure() for rival in rivals}
    print(f"Python {platform.python_version()}, load {os.getloadavg()[0]:.1f} at the end\n")
    print("| | " + " | ".join(found) + " | bar |")
    print("|---|" + "---:|" * (len(found) + 1))
    for case in CASES:
        cells = [shown(case, it.numbers.get(case)) for it in found.values()]
        print(f"| {case.name} | {' | '.join(cells)} | {bar_of(case)} |")
    print()
    for name, it in found.items():
        for remark in it.remarks:
            print(f"- {name}: {remark}.")
    missed = list(misses(found))
    for sentence in missed:
        print(f"MISSED: {sentence}")
    return bool(missed)


def shown(case: Case, number: float | None) -> str:
    if number is None:
        return "-"
    return f"{number:,.0f} {case.unit}" if number >= 100 else f"{number:.2g} {case.unit}"


def bar_of(case: Case) -> str:
    if case is IDLE:
        return "1/8 of Apache's"
    return "" if case.bar is None else f"{case.bar:g} {case.unit}"


def misses(found: dict[str, Found]) -> list[str]:
    own = found.get(PyKBroker.name)
    if own is None:
        return []
    over = [
        f"{case.name}: {number:.3g} {case.unit}, bar {case.bar:g}"
        for case, number in own.numbers.items()
        if case.bar is not None and number > case.bar
    ]
    apache = found.get(Apache.name)
    if apache is not None and own.numbers[IDLE] > apache.numbers[IDLE] * IDLE_SHARE_MAX:
        over.append(
            f"idle memory: {own.numbers[IDLE]:.3g} MB, Apache has {apache.numbers[IDLE]:.3g}"
        )
    return over


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
