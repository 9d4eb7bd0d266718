"""The results that are kept: they are of today's matrix, and the page says when they were found."""

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


def test_a_later_run_takes_the_place_of_an_earlier_one_in_its_own_cells(tmp_path: Path) -> None:
    file = tmp_path / "kept.json"
    keep(results(cell("fake 1"), cell("other 2", Outcome.FAILED)), MATRIX, file)
    keep(results(cell("other 2"), day="2026-02-02"), MATRIX, file)
    found = [(it.client, it.outcome, it.day) for it in read_stored(file)]
    assert found == [
        ("fake 1", Outcome.PASSED, "2026-01-01"),
        ("other 2", Outcome.PASSED, "2026-02-02"),
    ]
    assert json.loads(file.read_text())


def test_what_is_in_the_suite_no_more_is_forgotten_by_the_next_run(tmp_path: Path) -> None:
    file = tmp_path / "kept.json"
    keep(results(cell("fake 1"), cell("other 2")), MATRIX, file)
    newer = CellKey("one", "fake 1", "PyKBroker 2")
    keep(results(cell("fake 1", broker="PyKBroker 2"), cell("a user's")), {newer}, file)
    assert [it.key for it in read_stored(file)] == [newer]


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (MATRIX, []),
        ([CellKey("one", "fake 1", BROKER)], ["other 2, PyKBroker 1: 1 not tried yet: one"]),
        (
            [*MATRIX, CellKey("one", "fake 0", BROKER), CellKey("two", "fake 0", BROKER)],
            ["fake 0, PyKBroker 1: 2 not in the suite any more: one, two"],
        ),
        (
            [*MATRIX, CellKey("one", "fake 1", "PyKBroker 0")],
            ["fake 1, PyKBroker 0: 1 not in the suite any more: one"],
        ),
    ],
)
def test_results_are_stale_unless_they_are_those_of_the_matrix(
    found: list[CellKey], told: list[str]
) -> None:
    assert list(stale(map(kept, found), MATRIX)) == told


def test_the_page_tells_the_days_between_which_a_client_was_tried() -> None:
    scenarios, client = all_scenarios(), stock_clients()[0]
    keys = [CellKey(it.name, str(client), BROKER) for it in scenarios[:2]]
    days = "2026-01-01", "2026-02-02"
    cells = [kept(key, day) for key, day in zip(keys, days, strict=True)]
    assert "| 2026-01-01 to 2026-02-02 |" in compatibility_page(cells, scenarios, [client])
    assert "| 2026-02-02 |" in compatibility_page(cells[1:], scenarios, [client])
    assert "| never |" in compatibility_page([], scenarios, [client])


def test_the_results_are_those_of_todays_matrix() -> None:
    """What fails here asks for `pykbroker-compat run --oracle --keep` with what it names."""
    assert not list(stale(read_stored(), current_matrix()))


def test_the_page_of_the_documentation_is_up_to_date() -> None:
    written = compatibility_page(read_stored(), all_scenarios(), stock_clients())
    assert PAGE.read_text() == written, "run `make docs`"
