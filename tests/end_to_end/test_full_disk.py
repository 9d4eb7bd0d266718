"""On a full disk producers get a retriable error; all other requests succeed."""

from __future__ import annotations

import subprocess
import time
from typing import TYPE_CHECKING, Any

import pytest

from compat.broker_process import BrokerFailedError
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.records.batch import iterate_batches
from tests.apis.request_builders import (
    batch,
    created,
    fetched,
    from_partition,
    new_producer_id,
    new_topic,
    produced,
    to_partition,
)
from tests.apis.wire import Wire
from tests.end_to_end.load import create_topic

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.end_to_end.conftest import StartBroker

DISK_BYTES = 8 << 20
VALUE = bytes(range(256)) * 100


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mounts an in-memory file system of a few megabytes."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(disk)]
    try:
        subprocess.run(mount, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as refused:
        pytest.skip(f"a file system cannot be mounted here: {refused}")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


class Ballast:
    """A file that fills the free space of the disk."""

    def __init__(self, disk: Path) -> None:
        self.file = disk / "ballast"

    def take_all(self) -> None:
        with self.file.open("ab", buffering=0) as file:
            for size in (1 << 20, 1 << 12, 1):
                try:
                    while file.write(bytes(size)) == size:
                        pass
                except OSError:
                    continue

    def drop(self) -> None:
        self.file.unlink()


def write(wire: Wire, topic: str, value: bytes = VALUE, **header: Any) -> Any:
    data = to_partition(batch(value, **header), topic=topic)
    return wire.ask(produced(data), 9).responses[0].partition_responses[0]


def values_of(wire: Wire, topic: str) -> list[bytes | None]:
    values: list[bytes | None] = []
    while True:
        (row,) = (
            wire.ask(fetched(from_partition(len(values), topic=topic)), 11).responses[0].partitions
        )
        assert row.error_code == ErrorCode.NONE
        if not row.records:
            return values
        for found in iterate_batches(bytes(row.records)):
            assert found.is_crc_valid()
            assert found.base_offset == len(values)
            values += [record.value for record in found.records()]


def test_producers_get_an_error_and_consumers_continue(
    small_disk: Path, start_broker: StartBroker
) -> None:
    broker = start_broker(data=small_disk)
    ballast = Ballast(small_disk)
    create_topic(broker, "t", 1)
    with Wire(broker.port) as wire:
        producer_id = wire.ask(new_producer_id(), 4).producer_id
        acknowledged: list[bytes] = []

        def send(number: int) -> int:
            value = b"%d " % number + VALUE
            row = write(
                wire,
                "t",
                value,
                producer_id=producer_id,
                producer_epoch=0,
                base_sequence=len(acknowledged),
            )
            if row.error_code == ErrorCode.NONE:
                assert row.base_offset == len(acknowledged)
                acknowledged.append(value)
            return int(row.error_code)

        assert [send(number) for number in range(5)] == [ErrorCode.NONE] * 5
        for round_number in range(3):
            ballast.take_all()
            codes = {send(10 + number) for number in range(3)}
            assert codes == {ErrorCode.KAFKA_STORAGE_ERROR}
            assert ErrorCode.KAFKA_STORAGE_ERROR.retriable
            assert values_of(wire, "t") == acknowledged
            ballast.drop()
            assert send(100 + round_number) == ErrorCode.NONE
        assert values_of(wire, "t") == acknowledged
    broker.kill()
    broker.start()
    with Wire(broker.port) as wire:
        assert values_of(wire, "t") == acknowledged
    assert "append failed" in broker.log()


def test_topics_created_on_a_full_disk_work_after_space_is_freed(
    small_disk: Path, start_broker: StartBroker
) -> None:
    broker = start_broker(data=small_disk)
    ballast = Ballast(small_disk)
    create_topic(broker, "before", 1)
    ballast.take_all()
    made = ["before"]
    with Wire(broker.port) as wire:
        for number in range(200):
            answer = wire.ask(created(new_topic(f"full-{number}", 3)), 7)
            if answer.topics[0].error_code != ErrorCode.NONE:
                break
            made.append(f"full-{number}")  # the metadata log had space, the partition log had none
        else:
            pytest.fail("the disk did not fill up")
        assert values_of(wire, "before") == []
    ballast.drop()
    create_topic(broker, "after", 1)
    with Wire(broker.port) as wire:
        for topic in [*made, "after"]:
            write_in_time(wire, topic)
            assert values_of(wire, topic) == [VALUE]


def write_in_time(wire: Wire, topic: str) -> None:
    """Retries like a client, while the broker retries to create the log every second."""
    deadline = time.monotonic() + 20
    while (row := write(wire, topic)).error_code != ErrorCode.NONE:
        assert row.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_start_on_a_full_disk_fails_without_a_change(
    small_disk: Path, start_broker: StartBroker
) -> None:
    broker = start_broker(data=small_disk)
    ballast = Ballast(small_disk)
    create_topic(broker, "t", 1)
    with Wire(broker.port) as wire:
        assert write(wire, "t").error_code == ErrorCode.NONE
    ballast.take_all()
    broker.kill()
    with pytest.raises(BrokerFailedError, match="exit code 2"):
        broker.start()
    assert "No space left on device" in broker.log()
    ballast.drop()
    broker.start()
    with Wire(broker.port) as wire:
        assert values_of(wire, "t") == [VALUE]
        assert write(wire, "t").error_code == ErrorCode.NONE


def test_a_broker_on_a_full_disk_stops_with_exit_code_0(
    small_disk: Path, start_broker: StartBroker
) -> None:
    broker = start_broker(data=small_disk)
    ballast = Ballast(small_disk)
    create_topic(broker, "t", 1)
    with Wire(broker.port) as wire:
        assert write(wire, "t").error_code == ErrorCode.NONE
        ballast.take_all()
        assert write(wire, "t").error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert broker.stop() == 0
    ballast.drop()
    broker.start()
    with Wire(broker.port) as wire:
        assert values_of(wire, "t") == [VALUE]
