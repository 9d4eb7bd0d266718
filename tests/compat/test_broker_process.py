"""BrokerProcess: ready line, restart on the same port, error message of a failed start."""

from pathlib import Path

import pytest

from benchmarks import wire
from compat.broker_process import BrokerFailedError, BrokerProcess


def test_broker_serves_after_its_ready_line_and_stops_with_exit_code_0(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "data").start()
    assert f"bootstrap={broker.bootstrap}" in broker.ready_line
    assert wire.knows_itself(broker.port)
    assert broker.stop() == 0
    assert not broker.is_running


def test_killed_broker_restarts_on_the_same_port(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data", arguments=["--topic", "trucks:3"]) as broker:
        before = broker.bootstrap
        broker.kill()
        assert broker.exit_code == -9
        broker.start()
        assert broker.bootstrap == before
        assert wire.leaders(broker.port, ["trucks"]) == 3


def test_error_of_a_failed_start_contains_the_log(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "data", settings={"log.segment.bytes": "many"})
    with pytest.raises(BrokerFailedError, match=r"exit code 2(.|\n)*segment\.bytes"):
        broker.start()
