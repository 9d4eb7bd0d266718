"""Terminal output: a line for each finished cell, a table at the end."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from compat.suite.results import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator

    from compat.suite.results import Cell, Results

_COLOURS = {
    Outcome.PASSED: "\x1b[32m",
    Outcome.FAILED: "\x1b[31m",
    Outcome.CANNOT: "\x1b[2m",
    Outcome.NOT_SERVED: "\x1b[33m",
    Outcome.NOT_TRIED: "\x1b[33m",
}
_PLAIN = "\x1b[0m"


def progress(cell: Cell) -> str:
    """Returns the line of a finished cell; the reason follows indented."""
    line = f"{coloured(cell.outcome)} {cell.scenario} · {cell.client} · {cell.broker}"
    if not cell.reason:
        return f"{line} ({cell.seconds:.1f} s)"
    reason = "\n    ".join(cell.reason.splitlines())
    return f"{line} ({cell.seconds:.1f} s)\n    {reason}"


def table(results: Results) -> str:
    """Returns the matrix with one column per client and broker, and a legend below."""
    columns = [(client, broker) for client in results.clients for broker in results.brokers]
    width = max([len(name) for name, _, _ in results.scenarios], default=0)
    lines = [_numbers(width, len(columns))]
    cells = results.by_place()
    for subject, scenarios in results.subjects().items():
        lines.append(subject.upper())
        for name, _ in scenarios:
            signs = (cells.get((name, *column)) for column in columns)
            row = " ".join(f" {coloured(it.outcome)}" if it else "  " for it in signs)
            lines.append(f"{name:<{width}} {row}")
    legend = ", ".join(f"{coloured(it)} {it.label}" for it in Outcome)
    lines += ["", *_legend(columns), "", legend, "", *summary(results)]
    return "\n".join(lines)


def summary(results: Results) -> Iterator[str]:
    for broker in results.brokers:
        counts = {it: results.count(it, broker) for it in Outcome}
        text = ", ".join(f"{count} {outcome.label}" for outcome, count in counts.items() if count)
        yield f"{broker}: {text or 'no cells'}"


def coloured(outcome: Outcome) -> str:
    if not sys.stdout.isatty():
        return outcome.sign
    return f"{_COLOURS[outcome]}{outcome.sign}{_PLAIN}"


def _numbers(width: int, count: int) -> str:
    return " " * (width + 1) + " ".join(f"{number:>2}" for number in range(1, count + 1))


def _legend(columns: list[tuple[str, str]]) -> Iterator[str]:
    for number, (client, broker) in enumerate(columns, 1):
        yield f"{number:>3}  {client} · {broker}"
