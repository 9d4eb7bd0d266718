"""The core scenarios pass with every client, installed from its registry."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from compat.command_line import main
from compat.suite.installation import installed
from compat.suite.manifest import stock_clients
from compat.suite.scenario import all_scenarios
from compat.suite.timeout_factor import VARIABLE

if TYPE_CHECKING:
    from pathlib import Path

CORE = [it for it in all_scenarios() if it.is_core]
LATEST = {
    it.name: it
    for it in reversed(stock_clients())
    if any(scenario.subject in it.plays for scenario in CORE)
}
"""The first version of each manifest."""


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(LATEST))
def test_core_scenarios_pass_with(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "4")
    client = LATEST[name]
    installed(client)
    chosen = f"{name}={client.version}"
    code = main(["run", "--quick", "--clients", chosen, "--report", str(tmp_path)])
    cells = json.loads(tmp_path.joinpath("results.json").read_text())["cells"]
    found = {it["scenario"]: (it["outcome"], it["reason"]) for it in cells}
    assert found.keys() == {it.name for it in CORE if it.subject in client.plays}
    assert {outcome for outcome, _ in found.values()} <= {"true", "cannot"}, found
    assert code == 0


def test_quick_set_contains_every_client_except_two() -> None:
    """MirrorMaker needs a second cluster; Spark has end-to-end tests."""
    left_out = {it.name for it in stock_clients()} - LATEST.keys()
    assert left_out == {"mirror-maker", "spark"}


def test_unknown_names_and_invalid_addresses_are_usage_errors(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["run", "--clients", "missing"]) == 2
    assert "unknown client missing" in capsys.readouterr().err
    assert main(["run", "--scenarios", "nothing*"]) == 2
    assert main(["diff", "--left", "here", "--right", "there:1"]) == 2


def test_list_prints_clients_and_scenarios(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    output = capsys.readouterr().out
    assert "kafka-python 2.0.2" in output
    assert "produce-acks-all-gzip" in output
