"""What a manifest says of a client: believed, unless somebody wants to see it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from compat.command_line import main
from compat.suite.assertions import must
from compat.suite.brokers import Broker
from compat.suite.installation import CACHE_VARIABLE
from compat.suite.manifest import BadManifestError, read_manifest, stock_clients
from compat.suite.process_pool import ProcessPool
from compat.suite.relay import Relays
from compat.suite.results import Cell, Outcome, Results
from compat.suite.runner import Runner
from compat.suite.scenario import Scenario, all_scenarios

if TYPE_CHECKING:
    from pathlib import Path

    from compat.suite.manifest import StockClient

TRUE = Scenario(name="true", sentence="Nothing is asked.", subject="producing", play=lambda _: None)
FALSE = replace(TRUE, name="false", play=lambda _: must(False, "it is not so"))
LIKEWISE_FALSE = replace(FALSE, name="likewise-false")
BROKER = Broker(name="nobody", version="", addresses=[("127.0.0.1", 1)])


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StockClient:
    """One that needs no installation, of which the manifest says two things, one of them wrong."""
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    folder = tmp_path / "stock"
    folder.mkdir()
    some = stock_clients()[0]
    said = {"true": "they say so", "false": "it is so"}
    return replace(some, folder=folder, also=(), needs=(), install=(), not_true=said)


def outcomes(client: StockClient, tmp_path: Path, *, tests_not_true: bool) -> dict[str, Outcome]:
    with ProcessPool(tmp_path) as pool, Relays() as relays:
        runner = Runner(
            pool=pool,
            relays=relays,
            at_once=1,
            report=lambda _: None,
            tests_not_true=tests_not_true,
        )
        cells = runner.run([TRUE, FALSE, LIKEWISE_FALSE], [client], [BROKER])
    return {it.scenario: it.outcome for it in cells}


def test_what_a_manifest_calls_not_true_is_not_played(client: StockClient, tmp_path: Path) -> None:
    found = outcomes(client, tmp_path, tests_not_true=False)
    cannot = {"true": Outcome.CANNOT, "false": Outcome.CANNOT}
    assert found == {**cannot, "likewise-false": Outcome.FAILED}


def test_in_disbelief_it_is_played_and_nothing_else(client: StockClient, tmp_path: Path) -> None:
    found = outcomes(client, tmp_path, tests_not_true=True)
    assert found == {"true": Outcome.PASSED, "false": Outcome.FAILED}


def test_a_manifest_is_wrong_where_no_broker_makes_a_scenario_fail() -> None:
    cells = [
        Cell(client="old", scenario=scenario, broker=broker, outcome=Outcome(outcome))
        for scenario, broker, outcome in (
            ("a", "one", "true"),
            ("a", "other", "true"),
            ("b", "one", "true"),
            ("b", "other", "false"),
        )
    ]
    found = Results(
        day="",
        seconds=0,
        suite="",
        machine="",
        clients=("old",),
        brokers=("one", "other"),
        scenarios=(),
        cells=tuple(cells),
    )
    assert found.true_everywhere() == [("a", "old")]


def test_what_is_played_in_disbelief_is_not_kept(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--disbelieve", "--keep"]) == 2
    assert "is not kept" in capsys.readouterr().err


def test_a_client_is_tried_in_two_versions_or_its_manifest_says_why_one_is_enough() -> None:
    versions: dict[str, list[StockClient]] = {}
    for client in stock_clients():
        versions.setdefault(client.name, []).append(client)
    for name, its in versions.items():
        assert len(its) > 1 or "; one is enough: " in its[0].why, name


def test_several_versions_and_a_reason_for_one_contradict_each_other(tmp_path: Path) -> None:
    manifest = tmp_path / "client.toml"
    manifest.write_text('single = "why"\nversions = { "1" = { why = "" }, "2" = { why = "" } }\n')
    with pytest.raises(BadManifestError, match="names several"):
        list(read_manifest(manifest))


def test_no_manifest_speaks_of_a_scenario_that_there_is_not() -> None:
    names = {it.name for it in all_scenarios()}
    for client in stock_clients():
        assert client.not_true.keys() <= names, client
