"""Client manifests: `not_true`, versions, and `run --disbelieve`."""

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

PASSING = Scenario(name="true", sentence="Does nothing.", subject="producing", play=lambda _: None)
FAILING = replace(PASSING, name="false", play=lambda _: must(False, "failed"))
OTHER_FAILING = replace(FAILING, name="likewise-false")
BROKER = Broker(name="none", version="", addresses=[("127.0.0.1", 1)])


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StockClient:
    """A client without installation; one of its two `not_true` entries is wrong."""
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    folder = tmp_path / "stock"
    folder.mkdir()
    some = stock_clients()[0]
    not_true = {"true": "wrong entry", "false": "right entry"}
    return replace(some, folder=folder, also=(), needs=(), install=(), not_true=not_true)


def outcomes(client: StockClient, tmp_path: Path, *, tests_not_true: bool) -> dict[str, Outcome]:
    with ProcessPool(tmp_path) as pool, Relays() as relays:
        runner = Runner(
            pool=pool,
            relays=relays,
            at_once=1,
            report=lambda _: None,
            tests_not_true=tests_not_true,
        )
        cells = runner.run([PASSING, FAILING, OTHER_FAILING], [client], [BROKER])
    return {it.scenario: it.outcome for it in cells}


def test_scenarios_in_not_true_are_skipped(client: StockClient, tmp_path: Path) -> None:
    found = outcomes(client, tmp_path, tests_not_true=False)
    cannot = {"true": Outcome.CANNOT, "false": Outcome.CANNOT}
    assert found == {**cannot, "likewise-false": Outcome.FAILED}


def test_disbelieve_runs_only_scenarios_in_not_true(client: StockClient, tmp_path: Path) -> None:
    found = outcomes(client, tmp_path, tests_not_true=True)
    assert found == {"true": Outcome.PASSED, "false": Outcome.FAILED}


def test_not_true_entry_is_wrong_if_the_scenario_passes_on_every_broker() -> None:
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
    assert found.passed_everywhere() == [("a", "old")]


def test_disbelieve_and_keep_are_mutually_exclusive(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--disbelieve", "--keep"]) == 2
    assert "mutually exclusive" in capsys.readouterr().err


def test_client_has_two_versions_or_a_reason_for_a_single_one() -> None:
    versions: dict[str, list[StockClient]] = {}
    for client in stock_clients():
        versions.setdefault(client.name, []).append(client)
    for name, its in versions.items():
        assert len(its) > 1 or "; one is enough: " in its[0].why, name


def test_single_is_rejected_with_several_versions(tmp_path: Path) -> None:
    manifest = tmp_path / "client.toml"
    manifest.write_text('single = "why"\nversions = { "1" = { why = "" }, "2" = { why = "" } }\n')
    with pytest.raises(BadManifestError, match="not allowed with several versions"):
        list(read_manifest(manifest))


def test_not_true_names_existing_scenarios() -> None:
    names = {it.name for it in all_scenarios()}
    for client in stock_clients():
        assert client.not_true.keys() <= names, client
