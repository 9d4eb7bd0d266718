"""A broker with a small open file limit serves many partitions."""

from __future__ import annotations

import re
import socket
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from compat.broker_process import BrokerProcess
from pykbroker_protocol.errors import ErrorCode
from tests.apis.request_builders import (
    batch,
    created,
    fetched,
    from_partition,
    new_topic,
    produced,
    to_partition,
)
from tests.apis.wire import Wire

if TYPE_CHECKING:
    from collections.abc import Iterator

LIMIT = 128
PARTITIONS = 200
CONNECTIONS = 70  # 32 are accepted, the others wait in the backlog of 50
LIMITED = ("sh", "-c", f'ulimit -n {LIMIT}; exec "$0" "$@"', sys.executable)


@pytest.fixture
def limited_broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    pytest.importorskip("resource")
    with BrokerProcess(tmp_path / "data", python=LIMITED) as broker:
        yield broker


def create(wire: Wire, topic: str, partitions: int) -> int:
    answer = wire.ask(created(new_topic(topic, partitions)), 7)
    return int(answer.topics[0].error_code)


def write_and_read_all(wire: Wire, values: list[bytes]) -> None:
    """Appends the last value to each partition, then reads all values."""
    for index in range(PARTITIONS):
        data = to_partition(batch(values[-1]), partition=index, topic="many")
        row = wire.ask(produced(data), 9).responses[0].partition_responses[0]
        assert (row.error_code, row.base_offset) == (ErrorCode.NONE, len(values) - 1)
    read_all(wire, values)


def read_all(wire: Wire, values: list[bytes]) -> None:
    for index in range(PARTITIONS):
        answer = wire.ask(fetched(from_partition(0, partition=index, topic="many")), 11)
        (row,) = answer.responses[0].partitions
        assert row.error_code == ErrorCode.NONE
        assert [bytes(row.records).count(value) for value in values] == [1] * len(values)


def test_more_partitions_and_connections_than_descriptors_are_served(
    limited_broker: BrokerProcess,
) -> None:
    broker, values = limited_broker, [b"first"]
    with Wire(broker.port) as wire:
        assert create(wire, "many", PARTITIONS) == ErrorCode.NONE
        write_and_read_all(wire, values)
        with ExitStack() as connections:
            for _ in range(CONNECTIONS):
                connections.enter_context(socket.create_connection(("127.0.0.1", broker.port)))
            values.append(b"many connections")
            write_and_read_all(wire, values)
            assert create(wire, "many-connections", 20) == ErrorCode.NONE
        with Wire(broker.port) as new_connection:
            assert create(new_connection, "afterwards", 20) == ErrorCode.NONE
    assert "connections are open, the maximum that" in broker.log()
    assert "Too many open files" not in broker.log()
    broker.kill()
    broker.start()
    with Wire(broker.port) as wire:
        read_all(wire, values)
        values.append(b"restarted")
        write_and_read_all(wire, values)
        assert create(wire, "many-connections", 20) == ErrorCode.TOPIC_ALREADY_EXISTS


@pytest.mark.skipif(not Path("/proc/self/limits").exists(), reason="this system has no /proc")
def test_the_broker_raises_its_soft_limit(tmp_path: Path) -> None:
    lowered = ("sh", "-c", 'ulimit -Sn 200; ulimit -Hn 300; exec "$0" "$@"', sys.executable)
    with BrokerProcess(tmp_path / "data", python=lowered) as broker:
        (line,) = re.findall("Max open files.*", Path(f"/proc/{broker.pid}/limits").read_text())
        assert line.split()[3:5] == ["300", "300"]
        assert "open file limit (ulimit -n) is 300" in broker.log()
