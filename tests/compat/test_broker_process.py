"""PyKBroker as a process: ready when it says so, back at its address, clear when it fails."""

from pathlib import Path

import pytest

from benchmarks import wire
from compat.broker_process import BrokerFailedError, BrokerProcess


def test_a_broker_serves_when_it_says_so_and_ends_cleanly(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "data").start()
    assert f"bootstrap={broker.bootstrap}" in broker.ready_line
    assert wire.knows_itself(broker.port)
    assert broker.stop() == 0
    assert not broker.is_running


def test_a_killed_broker_comes_back_at_the_same_address(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data", arguments=["--topic", "trucks:3"]) as broker:
        before = broker.bootstrap
        broker.kill()
        assert broker.exit_code == -9
        broker.start()
        assert broker.bootstrap == before
        assert wire.leaders(broker.port, ["trucks"]) == 3


def test_a_broker_that_cannot_start_says_why(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "data", settings={"log.segment.bytes": "many"})
    with pytest.raises(BrokerFailedError, match=r"exit code 2(.|\n)*segment\.bytes"):
        broker.start()
