"""Reads partitions back from each replica in turn and checks them against the acknowledgements."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from compat.wire import Wire
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.records.batch import iterate_batches
from tests.apis.request_builders import fetched, from_partition, offsets_at
from tests.end_to_end.load import read_value

if TYPE_CHECKING:
    from compat.cluster import Cluster
    from tests.cluster.workload import Stream, Workload

FETCH_VERSION = 11
LIST_OFFSETS_VERSION = 7
LATEST = -1
END_TIMEOUT_SECONDS = 30.0
POLL_SECONDS = 0.02

# A new leader learns its role and its high watermark a moment after the election.
TEMPORARY = {
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.OFFSET_NOT_AVAILABLE,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """A partition as one leader serves it to consumers."""

    raw: bytes
    records: dict[int, tuple[int, int]]
    """Stream and record number by offset."""

    def numbers_of(self, stream: int) -> list[int]:
        return [number for owner, number in self.records.values() if owner == stream]


def read_from_leader(cluster: Cluster, topic: str, index: int) -> Content:
    """Reads a partition from offset 0 to its latest offset."""
    leader = cluster.partition(topic, index).leader
    with Wire(cluster.nodes[leader].port) as wire:
        end = _latest_offset(wire, topic, index)
        raw = bytearray()
        records: dict[int, tuple[int, int]] = {}
        offset = 0
        while offset < end:
            part = _fetch(wire, topic, index, offset)
            raw += part
            for batch in iterate_batches(part):
                assert batch.base_offset == offset, f"{topic}-{index}: a gap before {offset}"
                assert batch.is_crc_valid()
                for record in batch.records():
                    assert record.value is not None
                    records[record.offset] = read_value(record.value)
                offset = batch.next_offset
    return Content(raw=bytes(raw), records=records)


def _latest_offset(wire: Wire, topic: str, index: int) -> int:
    (request,) = offsets_at(topic, [LATEST], partition=index)
    deadline = time.monotonic() + END_TIMEOUT_SECONDS
    while True:
        row = wire.ask(request, LIST_OFFSETS_VERSION).topics[0].partitions[0]
        if row.error_code == ErrorCode.NONE:
            offset: int = row.offset
            return offset
        assert row.error_code in TEMPORARY, row
        assert time.monotonic() < deadline, f"{topic}-{index}: {row}"
        time.sleep(POLL_SECONDS)


def _fetch(wire: Wire, topic: str, index: int, offset: int) -> bytes:
    """Returns complete batches from `offset`, which is below the high watermark."""
    request = fetched(from_partition(offset, topic=topic, partition=index))
    (row,) = wire.ask(request, FETCH_VERSION).responses[0].partitions
    assert row.error_code == ErrorCode.NONE, row
    assert row.records, f"{topic}-{index}: no records at {offset}, below the latest offset"
    return bytes(row.records)


def expect_acknowledged_records_on_every_replica(cluster: Cluster, workload: Workload) -> None:
    """Makes every replica the leader in turn and checks that all have the same valid content."""
    topic = workload.topic
    cluster.wait_until_in_sync(topic)
    replicas = {it.index: it.replicas for it in cluster.partitions(topic)}
    contents: dict[int, Content] = {}
    for shift in range(len(replicas[0])):
        rotated = {index: ids[shift:] + ids[:shift] for index, ids in replicas.items()}
        cluster.lead(topic, rotated)
        for index, ids in rotated.items():
            content = read_from_leader(cluster, topic, index)
            known = contents.setdefault(index, content)
            assert content.raw == known.raw, (
                f"{topic}-{index}: node {ids[0]} and node {replicas[index][0]} differ"
            )
    for index, streams in workload.by_partition().items():
        for stream in streams:
            _expect_stream(contents[index], stream)


def _expect_stream(content: Content, stream: Stream) -> None:
    if stream.kind.is_idempotent:  # retries of other producers duplicate and reorder records
        numbers = content.numbers_of(stream.id)
        assert numbers == [*range(stream.count)], f"records of stream {stream.id}: {numbers}"
    if stream.kind.keeps_acknowledged:
        assert not stream.failures, stream.failures[:5]
        for number, offset in stream.acknowledged.items():
            assert content.records.get(offset) == (stream.id, number), (
                f"record {number} of stream {stream.id} was acknowledged at offset {offset}, "
                f"which has {content.records.get(offset)}"
            )
