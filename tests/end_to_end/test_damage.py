"""A byte that changes on disk is detected, logged and never sent to a consumer as valid."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.find_coordinator import FindCoordinatorRequest
from pykbroker_protocol.messages.list_groups import ListGroupsRequest
from pykbroker_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pykbroker_protocol.records.batch import iterate_batches
from tests.apis.request_builders import batch, fetched, from_partition, produced, to_partition
from tests.apis.wire import Wire
from tests.end_to_end.load import create_topic

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from compat.broker_process import BrokerProcess
    from pykbroker_protocol.message import Message
    from tests.end_to_end.conftest import StartBroker

BATCHES = 20
TIMEOUT_SECONDS = 30.0
TRANSIENT = (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


def write(broker: BrokerProcess, value: bytes) -> Any:
    with Wire(broker.port) as wire:
        answer = wire.ask(produced(to_partition(batch(value), topic="t")), 9)
    return answer.responses[0].partition_responses[0]


def flip(log_file: Path, position: int) -> None:
    with log_file.open("r+b") as file:
        file.seek(position)
        (byte,) = file.read(1)
        file.seek(position)
        file.write(bytes([byte ^ 0x10]))


def refusal_at(broker: BrokerProcess, offset: int) -> int:
    with Wire(broker.port) as wire:
        answer = wire.ask(fetched(from_partition(offset, topic="t")), 11)
    code: int = answer.responses[0].partitions[0].error_code
    return code


def records_of(broker: BrokerProcess, from_offset: int = 0) -> tuple[list[bytes | None], int]:
    """Returns all values in valid batches and the number of batches with a wrong checksum."""
    values: list[bytes | None] = []
    bad, offset = 0, from_offset
    with Wire(broker.port) as wire:
        while True:
            answer = wire.ask(fetched(from_partition(offset, topic="t")), 11)
            (row,) = answer.responses[0].partitions
            if not row.records:
                return values, bad
            for found in iterate_batches(bytes(row.records)):
                offset = found.next_offset
                if not found.is_crc_valid():
                    bad += 1
                    continue
                values += [record.value for record in found.records()]


@pytest.mark.parametrize("number", [0, 7, BATCHES - 1])
def test_after_a_kill_the_log_is_cut_before_the_corrupt_batch(
    start_broker: StartBroker, number: int
) -> None:
    broker = start_broker()
    create_topic(broker, "t", 1)
    written = [b"record %d" % it for it in range(BATCHES)]
    for value in written:
        write(broker, value)
    broker.kill()
    (log_file,) = (broker.data_dir / "t-0").glob("*.log")
    size = log_file.stat().st_size // BATCHES  # nearly: the numbers have one digit or two
    flip(log_file, number * size + 65)
    broker.start()
    values, bad = records_of(broker)
    assert bad == 0
    assert values == written[: len(values)]
    assert number - 1 <= len(values) <= number + 1
    assert "t-0" in broker.log()
    assert write(broker, b"after").base_offset == len(values)
    assert records_of(broker) == ([*values, b"after"], 0)


@pytest.mark.parametrize("number", [0, 7, BATCHES - 1])
def test_after_a_clean_shutdown_only_the_corrupt_batch_is_refused(
    start_broker: StartBroker, number: int
) -> None:
    broker = start_broker()
    create_topic(broker, "t", 1)
    written = [b"record %02d" % it for it in range(BATCHES)]
    for value in written:
        write(broker, value)
    broker.stop()
    (log_file,) = (broker.data_dir / "t-0").glob("*.log")
    flip(log_file, number * (log_file.stat().st_size // BATCHES) + 65)
    broker.start()
    assert records_of(broker) == (written[:number], 0)
    assert refusal_at(broker, number) == ErrorCode.CORRUPT_MESSAGE
    assert f"t-0: stored records cannot be read at offset {number}" in broker.log()
    assert write(broker, b"after").base_offset == BATCHES
    assert records_of(broker, from_offset=number + 1) == ([*written[number + 1 :], b"after"], 0)


def test_a_corrupt_offsets_partition_does_not_affect_groups_of_another(
    start_broker: StartBroker,
) -> None:
    broker = start_broker(settings={"offsets.topic.num.partitions": 2})
    create_topic(broker, "t", 1)
    groups = ("a", "b")  # one in each partition
    with Wire(broker.port) as wire:
        for group in groups:
            settled(wire, FindCoordinatorRequest(key=group, key_type=0), 3)
            settled(wire, commit_of(group), 8, of_first_partition)
        assert listed(wire) == {*groups}
    broker.stop()
    flip(broker.data_dir / "__consumer_offsets-0" / f"{0:020}.log", 65)
    broker.start()
    with Wire(broker.port) as wire:
        assert listed(wire) == {"a"}
        refused = wire.ask(commit_of("b"), 8)
        assert of_first_partition(refused) == ErrorCode.NOT_COORDINATOR
        assert of_first_partition(wire.ask(commit_of("a"), 8)) == ErrorCode.NONE
    assert "__consumer_offsets-0: coordinator cannot be loaded" in broker.log()


def commit_of(group: str) -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(
        partition_index=0, committed_offset=1, committed_metadata=""
    )
    topic = OffsetCommitRequestTopic(name="t", partitions=[partition])
    return OffsetCommitRequest(group_id=group, member_id="", topics=[topic])


def of_first_partition(answer: Any) -> int:
    code: int = answer.topics[0].partitions[0].error_code
    return code


def listed(wire: Wire) -> set[str]:
    return {it.group_id for it in settled(wire, ListGroupsRequest(), 5).groups}


def settled(
    wire: Wire,
    request: Message,
    version: int,
    code_of: Callable[[Any], int] = lambda answer: answer.error_code,
) -> Any:
    """Retries until the coordinator is available and loaded; returns its response."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while code_of(answer := wire.ask(request, version)) in TRANSIENT:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return answer


@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".snapshot"])
def test_corrupt_indexes_and_snapshots_are_rebuilt(start_broker: StartBroker, suffix: str) -> None:
    broker = start_broker(settings={"log.index.interval.bytes": 100})
    create_topic(broker, "t", 1)
    written = [b"record %d" % number for number in range(BATCHES)]
    for value in written:
        write(broker, value)
    broker.stop()
    for damaged in (broker.data_dir / "t-0").glob(f"*{suffix}"):
        damaged.write_bytes(b"\xff" * 23)
    broker.start()
    assert records_of(broker) == (written, 0)
    assert write(broker, b"after").base_offset == BATCHES
