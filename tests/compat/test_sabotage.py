"""The suite detects every injected fault."""

from __future__ import annotations

import pytest

from compat.command_line import main
from compat.sabotage.faults import FAULTS
from compat.suite.installation import installed
from compat.suite.manifest import stock_clients

CLIENT = "kafka-python", "3.0.12"


@pytest.mark.slow
def test_every_fault_is_detected(capsys: pytest.CaptureFixture[str]) -> None:
    (client,) = (it for it in stock_clients() if (it.name, it.version) == CLIENT)
    installed(client)
    code = main(["sabotage", "--clients", "=".join(CLIENT)])
    output = capsys.readouterr().out
    assert code == 0, output
    assert f"{len(FAULTS)} faults, 0 not detected" in output


def test_unknown_fault_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sabotage", "--faults", "none-such"]) == 2
    assert "unknown fault none-such" in capsys.readouterr().err
