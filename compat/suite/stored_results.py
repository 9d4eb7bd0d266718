"""Stored results of the last run of each cell, and the page in docs generated from them."""

from __future__ import annotations

import json
from collections import Counter
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from compat.suite.brokers import broker_names
from compat.suite.manifest import stock_clients
from compat.suite.results import Outcome
from compat.suite.scenario import all_scenarios

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from compat.suite.manifest import StockClient
    from compat.suite.results import Results
    from compat.suite.scenario import Scenario

STORED_RESULTS = Path(__file__).parents[1] / "results.json"
PAGE = Path(__file__).parents[2] / "docs" / "compatibility.md"


class CellKey(NamedTuple):
    """Coordinates of a cell in the matrix."""

    scenario: str
    client: str
    broker: str


class StoredResult(NamedTuple):
    """A cell with the day of its last run."""

    scenario: str
    client: str
    broker: str
    outcome: Outcome
    day: str
    reason: str

    @property
    def key(self) -> CellKey:
        return CellKey(self.scenario, self.client, self.broker)


def matrix(
    scenarios: Iterable[Scenario], clients: Sequence[StockClient], brokers: Sequence[str]
) -> set[CellKey]:
    """Returns all cells of the matrix."""
    return {
        CellKey(scenario.name, str(client), broker)
        for scenario in scenarios
        for client in clients
        if scenario.subject in client.plays
        for broker in brokers
    }


def current_matrix() -> set[CellKey]:
    """Returns the matrix of the current scenarios, manifests and brokers."""
    return matrix(all_scenarios(), stock_clients(), broker_names())


def stale(cells: Iterable[StoredResult], expected: set[CellKey]) -> Iterator[str]:
    """Yields the missing cells and those that are no longer in the matrix."""
    found = {it.key for it in cells}
    yield from _by_client("not run yet", expected - found)
    yield from _by_client("no longer in the suite", found - expected)


def _by_client(what: str, keys: Iterable[CellKey]) -> Iterator[str]:
    names: dict[tuple[str, str], list[str]] = {}
    for it in sorted(keys):
        names.setdefault((it.client, it.broker), []).append(it.scenario)
    for (client, broker), its in names.items():
        yield f"{client}, {broker}: {len(its)} {what}: {', '.join(its)}"


def read_stored(file: Path = STORED_RESULTS) -> list[StoredResult]:
    if not file.exists():
        return []
    return [
        StoredResult(scenario, client, broker, Outcome(outcome), day, reason)
        for scenario, client, broker, outcome, day, reason in json.loads(file.read_text())
    ]


def keep(results: Results, matrix_keys: set[CellKey], file: Path = STORED_RESULTS) -> None:
    """Replaces the stored results of the cells of a run. Cells outside the matrix are dropped."""
    cells = {it.key: it for it in read_stored(file) if it.key in matrix_keys}
    for it in results.cells:
        key = CellKey(it.scenario, it.client, it.broker)
        if it.outcome != Outcome.NOT_TRIED and key in matrix_keys:
            reason = it.reason.splitlines()[0] if it.reason else ""
            cells[key] = StoredResult(*key, it.outcome, results.day, reason)
    rows = [json.dumps(it, ensure_ascii=False) for it in sorted(cells.values())]
    file.write_text("[\n" + ",\n".join(rows) + "\n]\n")


def page(
    cells: Sequence[StoredResult], scenarios: Sequence[Scenario], clients: Sequence[StockClient]
) -> str:
    """Returns the page, including cells that were not tried."""
    names = {it.name for it in scenarios}
    labels = [str(it) for it in clients]
    known = [it for it in cells if it.scenario in names and it.client in labels]
    brokers = sorted({it.broker for it in known}, key=lambda it: (not it.startswith("Py"), it))
    lines = [
        "# Compatibility",
        "",
        "Results of the compatibility suite with unchanged stock clients. `make docs` generates",
        "this page from `compat/results.json`, where `pykbroker-compat run --keep` stores results.",
        "[compat/README.md](../compat/README.md) describes the suite and how to run it.",
        "",
        f"Each cell has one symbol per broker: {', '.join(brokers) or 'no broker yet'}.",
        "✓ passed, ✗ failed, - not supported by the client, ○ not supported by the broker,",
        "· not run yet. The reasons are listed below.",
        "",
        *_clients(known, clients, brokers),
        *_matrix(known, scenarios, clients, brokers),
        *_false(known),
        *_not_run(known, Outcome.CANNOT, "Not supported by clients"),
        *_not_run(known, Outcome.NOT_SERVED, "Not supported by brokers"),
    ]
    return "\n".join(lines).rstrip() + "\n"


def _clients(
    cells: Sequence[StoredResult], clients: Sequence[StockClient], brokers: Sequence[str]
) -> Iterator[str]:
    yield "| | client | language | reason for this version | last run | passed cells |"
    yield "|---|---|---|---|---|---|"
    for number, client in enumerate(clients, 1):
        its = [it for it in cells if it.client == str(client)]
        counts = "; ".join(_share(its, broker) for broker in brokers)
        row = (str(number), str(client), client.language, client.why, _days(its), counts)
        yield f"| {' | '.join(row)} |"
    yield ""


def _days(cells: Iterable[StoredResult]) -> str:
    """Returns the days of the oldest and the newest run."""
    days = sorted({it.day for it in cells}) or ["never"]
    return days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"


def _share(cells: Iterable[StoredResult], broker: str) -> str:
    counts = Counter(it.outcome for it in cells if it.broker == broker)
    tried = counts[Outcome.PASSED] + counts[Outcome.FAILED]
    return f"{broker} {counts[Outcome.PASSED]}/{tried}"


def _matrix(
    cells: Sequence[StoredResult],
    scenarios: Sequence[Scenario],
    clients: Sequence[StockClient],
    brokers: Sequence[str],
) -> Iterator[str]:
    by_place = {it.key: it.outcome.sign for it in cells}
    for subject, its in groupby(scenarios, key=lambda it: it.subject):
        players = [(str(at), it) for at, it in enumerate(clients, 1) if subject in it.plays]
        yield from ("", f"## {subject.capitalize()}", "")
        yield f"| | {' | '.join(number for number, _ in players)} |"
        yield f"|---|{'---|' * len(players)}"
        for scenario in its:
            signs = [
                " ".join(
                    by_place.get(CellKey(scenario.name, str(client), it), "·") for it in brokers
                )
                for _, client in players
            ]
            yield f"| **{scenario.name}** {scenario.sentence} | {' | '.join(signs)} |"


def _false(cells: Sequence[StoredResult]) -> Iterator[str]:
    found = [it for it in cells if it.outcome == Outcome.FAILED]
    yield from ("", "## Failed", "")
    for it in found:
        yield f"- **{it.scenario}** · {it.client} · {it.broker}: {it.reason}"
    if not found:
        yield "None."


def _not_run(cells: Sequence[StoredResult], outcome: Outcome, title: str) -> Iterator[str]:
    """Yields each reason once, with its scenarios."""
    found: dict[tuple[str, str], set[str]] = {}
    for it in cells:
        if it.outcome == outcome:
            whose = it.client if outcome == Outcome.CANNOT else it.broker
            found.setdefault((whose, it.reason), set()).add(it.scenario)
    yield from ("", f"## {title}", "")
    for (whose, reason), names in sorted(found.items()):
        yield f"- {whose}: {reason} ({', '.join(sorted(names))})"
    if not found:
        yield "None."
