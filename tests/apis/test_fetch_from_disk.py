"""Fetch and ListOffsets of records that are not in the page cache."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pykbroker import Broker, Row
from pykbroker.apis.fetch_operation import DISK_READS_MAX
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pykbroker_protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from tests.apis.wire import Wire

if TYPE_CHECKING:
    from collections.abc import Iterator

PARTITIONS = DISK_READS_MAX + 4
NOW = 1_700_000_000_000


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(topics={"old": PARTITIONS}) as broker:
        for partition in range(PARTITIONS):
            for number in range(3):
                broker.produce("old", [Row(b"x", timestamp_ms=NOW + number)], partition=partition)
        broker.restart()  # from here on no page counts as cached
        yield broker


@pytest.fixture
def wire(broker: Broker) -> Iterator[Wire]:
    with Wire(int(broker.bootstrap.rpartition(":")[2])) as wire:
        yield wire


def fetch(wire: Wire, session: tuple[int, int], offsets: dict[int, int], **given: int) -> Any:
    return wire.ask(
        FetchRequest(
            max_wait_ms=given.get("max_wait_ms", 0),
            min_bytes=given.get("min_bytes", 1),
            max_bytes=1 << 20,
            isolation_level=given.get("isolation_level", 0),
            session_id=session[0],
            session_epoch=session[1],
            topics=[
                FetchTopic(
                    topic="old",
                    partitions=[
                        FetchPartition(partition=it, fetch_offset=at, partition_max_bytes=1 << 20)
                        for it, at in offsets.items()
                    ],
                )
            ]
            if offsets
            else [],
        ),
        12,
    )


def with_records(response: Any) -> list[int]:
    return [
        it.partition_index for topic in response.responses for it in topic.partitions if it.records
    ]


@pytest.mark.parametrize("isolation_level", [0, 1])
def test_a_request_reads_a_bounded_number_of_partitions_from_disk(
    wire: Wire, isolation_level: int
) -> None:
    everything = dict.fromkeys(range(PARTITIONS), 0)
    first = fetch(wire, (0, 0), everything, isolation_level=isolation_level)
    assert with_records(first) == list(range(DISK_READS_MAX))
    served = dict.fromkeys(range(DISK_READS_MAX), 3)
    second = fetch(wire, (first.session_id, 1), served, isolation_level=isolation_level)
    assert with_records(second) == list(range(DISK_READS_MAX, PARTITIONS))


def test_records_from_disk_count_for_min_bytes(wire: Wire) -> None:
    response = fetch(wire, (0, -1), {0: 0}, max_wait_ms=30_000, min_bytes=10)
    assert with_records(response) == [0]


def test_a_disk_read_error_affects_only_its_partition(broker: Broker, wire: Wire) -> None:
    with broker.faults.disk_read_error(topic="old"):
        response = fetch(wire, (0, -1), {0: 0, 1: 0})
        codes = [it.error_code for it in response.responses[0].partitions]
        assert codes == [ErrorCode.KAFKA_STORAGE_ERROR] * 2
        looked_up = list_offsets(wire, {0: NOW, 1: -1})
        assert looked_up == [(ErrorCode.KAFKA_STORAGE_ERROR, -1), (ErrorCode.NONE, 3)]
    assert with_records(fetch(wire, (0, -1), {0: 0, 1: 0})) == [0, 1]


def list_offsets(wire: Wire, asked: dict[int, int]) -> list[tuple[int, int]]:
    response = wire.ask(
        ListOffsetsRequest(
            replica_id=-1,
            topics=[
                ListOffsetsTopic(
                    name="old",
                    partitions=[
                        ListOffsetsPartition(partition_index=it, timestamp=at)
                        for it, at in asked.items()
                    ],
                )
            ],
        ),
        7,
    )
    return [(it.error_code, it.offset) for topic in response.topics for it in topic.partitions]


def test_timestamp_lookups_do_not_change_the_order_of_partitions(wire: Wire) -> None:
    timestamps = {0: NOW + 1, 1: -1, 2: -2, 3: NOW + 2, 4: -3, 5: NOW + 3, 99: NOW}
    expected = [1, 3, 0, 2, 2, -1, -1]
    found = list_offsets(wire, timestamps)
    assert [offset for _, offset in found] == expected
    assert [code for code, _ in found] == [0] * 6 + [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
