"""The core scenarios are true with every client, each installed from its registry."""

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
"""The first version that each manifest names."""


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(LATEST))
def test_the_core_scenarios_are_true_with(
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


def test_every_client_is_in_the_quick_set_but_for_two() -> None:
    """MirrorMaker needs another cluster; Spark's connector has tests of its own, end to end."""
    left_out = {it.name for it in stock_clients()} - LATEST.keys()
    assert left_out == {"mirror-maker", "spark"}


def test_a_command_line_that_asks_for_what_there_is_not_is_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["run", "--clients", "nobody"]) == 2
    assert "there is no client nobody" in capsys.readouterr().err
    assert main(["run", "--scenarios", "nothing*"]) == 2
    assert main(["diff", "--left", "here", "--right", "there:1"]) == 2


def test_the_list_names_clients_and_scenarios(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    told = capsys.readouterr().out
    assert "kafka-python 2.0.2" in told
    assert "produce-acks-all-gzip" in told
