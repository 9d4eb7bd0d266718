"""Stored results match the current matrix; the page shows the day of each run."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from compat.suite.manifest import stock_clients
from compat.suite.results import Cell, Outcome, Results
from compat.suite.scenario import all_scenarios
from compat.suite.stored_results import (
    PAGE,
    CellKey,
    StoredResult,
    current_matrix,
    keep,
    read_stored,
    stale,
)
from compat.suite.stored_results import page as compatibility_page

if TYPE_CHECKING:
    from pathlib import Path

CLIENTS = ("fake 1", "other 2")
BROKER = "PyKBroker 1"
MATRIX = {CellKey("one", it, BROKER) for it in CLIENTS}


def cell(client: str, outcome: Outcome = Outcome.PASSED, broker: str = BROKER) -> Cell:
    return Cell(client=client, scenario="one", broker=broker, outcome=outcome)


def results(*cells: Cell, day: str = "2026-01-01") -> Results:
    return Results(
        day=day,
        seconds=1.5,
        suite="1",
        machine="a machine",
        clients=CLIENTS,
        brokers=(BROKER,),
        scenarios=(("one", "subject", "One is one."),),
        cells=cells,
    )


def kept(key: CellKey, day: str = "2026-01-01") -> StoredResult:
    return StoredResult(*key, Outcome.PASSED, day, "")


def test_later_run_replaces_results_of_its_own_cells(tmp_path: Path) -> None:
    file = tmp_path / "kept.json"
    keep(results(cell("fake 1"), cell("other 2", Outcome.FAILED)), MATRIX, file)
    keep(results(cell("other 2"), day="2026-02-02"), MATRIX, file)
    found = [(it.client, it.outcome, it.day) for it in read_stored(file)]
    assert found == [
        ("fake 1", Outcome.PASSED, "2026-01-01"),
        ("other 2", Outcome.PASSED, "2026-02-02"),
    ]
    assert json.loads(file.read_text())


def test_cells_outside_the_matrix_are_dropped_by_the_next_run(tmp_path: Path) -> None:
    file = tmp_path / "kept.json"
    keep(results(cell("fake 1"), cell("other 2")), MATRIX, file)
    newer = CellKey("one", "fake 1", "PyKBroker 2")
    keep(results(cell("fake 1", broker="PyKBroker 2"), cell("a user's")), {newer}, file)
    assert [it.key for it in read_stored(file)] == [newer]


@pytest.mark.parametrize(
    ("found", "lines"),
    [
        (MATRIX, []),
        ([CellKey("one", "fake 1", BROKER)], ["other 2, PyKBroker 1: 1 not run yet: one"]),
        (
            [*MATRIX, CellKey("one", "fake 0", BROKER), CellKey("two", "fake 0", BROKER)],
            ["fake 0, PyKBroker 1: 2 no longer in the suite: one, two"],
        ),
        (
            [*MATRIX, CellKey("one", "fake 1", "PyKBroker 0")],
            ["fake 1, PyKBroker 0: 1 no longer in the suite: one"],
        ),
    ],
)
def test_missing_and_extra_cells_are_stale(found: list[CellKey], lines: list[str]) -> None:
    assert list(stale(map(kept, found), MATRIX)) == lines


def test_page_shows_the_days_of_a_clients_runs() -> None:
    scenarios, client = all_scenarios(), stock_clients()[0]
    keys = [CellKey(it.name, str(client), BROKER) for it in scenarios[:2]]
    days = "2026-01-01", "2026-02-02"
    cells = [kept(key, day) for key, day in zip(keys, days, strict=True)]
    assert "| 2026-01-01 to 2026-02-02 |" in compatibility_page(cells, scenarios, [client])
    assert "| 2026-02-02 |" in compatibility_page(cells[1:], scenarios, [client])
    assert "| never |" in compatibility_page([], scenarios, [client])


def test_stored_results_match_the_current_matrix() -> None:
    """On failure run `pykbroker-compat run --oracle --keep` with the named clients."""
    assert not list(stale(read_stored(), current_matrix()))


def test_compatibility_page_is_up_to_date() -> None:
    written = compatibility_page(read_stored(), all_scenarios(), stock_clients())
    assert PAGE.read_text() == written, "run `make docs`"
