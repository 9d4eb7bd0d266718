"""ListOffsets: returns the start, the end or the offset of a timestamp.

Start and end, which Spark requests at every poll, are answered from memory. Lookups by timestamp
run in a thread.
"""

from __future__ import annotations

import logging
from collections import Counter
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from pykbroker.apis.slices import Slice, in_slices, sliced
from pykbroker.partitions.disk_reads import record_at
from pykbroker.partitions.isolation import Isolation
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from pykbroker_protocol.records.corrupt import CorruptBatch
from pykbroker_storage.batch_scan import CorruptLog
from pykbroker_storage.log import LogClosed
from pykbroker_storage.time_lookup import TimedOffset

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from pykbroker.apis.node import Call
    from pykbroker.apis.slices import Slices
    from pykbroker.partitions.partition import Partition
    from pykbroker_protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest

logger = logging.getLogger(__name__)

NO_OFFSET = NO_TIMESTAMP = NO_EPOCH = -1
CONSUMER, DEBUGGING_REPLICA = -1, -2
"""Replica ids of clients; the second one is that of Kafka's replica verification tool."""
EPOCHS_SINCE_VERSION = 4
OFFSET_NOT_AVAILABLE_SINCE_VERSION = 5
NOT_FOUND = TimedOffset(NO_OFFSET, NO_TIMESTAMP, NO_EPOCH)

Rows: TypeAlias = dict[int, ListOffsetsPartitionResponse]
"""The responses of the partitions of one topic."""


class SpecialTimestamp(IntEnum):
    """Timestamps with a special meaning."""

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3
    EARLIEST_LOCAL = -4
    LATEST_TIERED = -5
    EARLIEST_PENDING_UPLOAD = -6


SINCE_VERSION: dict[int, int] = {
    SpecialTimestamp.LATEST: 1,
    SpecialTimestamp.EARLIEST: 1,
    SpecialTimestamp.MAX_TIMESTAMP: 7,
    SpecialTimestamp.EARLIEST_LOCAL: 8,
    SpecialTimestamp.LATEST_TIERED: 9,
    SpecialTimestamp.EARLIEST_PENDING_UPLOAD: 11,
}


class LookUp(NamedTuple):
    """A pending lookup by timestamp, with the rows that receive its result."""

    partition: Partition
    timestamp: int
    rows: Rows


@sliced
def handle(
    request: ListOffsetsRequest, call: Call
) -> Slices[ListOffsetsResponse | Awaitable[ListOffsetsResponse]]:
    named = yield from named_partitions(request, Slice())
    is_any_repeated = named.total() > len(named)
    topics: dict[str | int, tuple[str, Rows]] = {}
    look_ups: list[LookUp] = []
    count = Slice()
    for position, topic in enumerate(request.topics):
        name = topic.name
        _, rows = topics.setdefault(name if is_any_repeated else position, (name, {}))
        for it in topic.partitions:
            if count.is_full():
                yield
            found: ListOffsetsPartitionResponse | LookUp
            if named[name, it.partition_index] > 1:
                found = refused(it.partition_index, ErrorCode.INVALID_REQUEST)
            else:
                found = answer(rows, name, it, request, call)
            if isinstance(found, LookUp):
                look_ups.append(found)
                found = refused(it.partition_index, ErrorCode.NONE)
            rows[it.partition_index] = found
    if look_ups:
        return answer_when_found(topics, look_ups, request, call)
    return (yield from response_of(topics))


def named_partitions(request: ListOffsetsRequest, count: Slice) -> Slices[Counter[tuple[str, int]]]:
    """Counts partitions; repeated ones get INVALID_REQUEST."""
    named: Counter[tuple[str, int]] = Counter()
    for topic in request.topics:
        for it in topic.partitions:
            if count.is_full():
                yield
            named[topic.name, it.partition_index] += 1
    return named


def response_of(topics: dict[str | int, tuple[str, Rows]]) -> Slices[ListOffsetsResponse]:
    answered = yield from Slice().each(
        lambda it: ListOffsetsTopicResponse(name=it[0], partitions=list(it[1].values())),
        list(topics.values()),
    )
    return ListOffsetsResponse(topics=answered)


async def answer_when_found(
    topics: dict[str | int, tuple[str, Rows]],
    look_ups: list[LookUp],
    request: ListOffsetsRequest,
    call: Call,
) -> ListOffsetsResponse:
    """Looks up one partition after the other, so that a request uses one thread."""
    for partition, timestamp, rows in look_ups:
        rows[partition.index] = await look_up(partition, timestamp, request, call)
    return await in_slices(response_of(topics))


def answer(
    rows: Rows, topic: str, requested: ListOffsetsPartition, request: ListOffsetsRequest, call: Call
) -> ListOffsetsPartitionResponse | LookUp:
    index, timestamp = requested.partition_index, requested.timestamp
    partition = call.node.partitions.get(topic, index)
    if partition is None:
        return refused(index, call.node.error_without_replica(topic, index))
    refusal = partition.epoch_refusal(
        requested.current_leader_epoch, needs_leader=request.replica_id != DEBUGGING_REPLICA
    )
    if refusal is not None:
        return refused(index, refusal.code)
    if timestamp < 0 and not is_supported(timestamp, call.version):
        return refused(index, ErrorCode.UNSUPPORTED_VERSION)
    if timestamp == SpecialTimestamp.LATEST:
        if not is_available(partition, request):
            return refused(index, not_available(call))
        at = TimedOffset(
            latest(partition, request), NO_TIMESTAMP, partition.leadership.leader_epoch
        )
    elif timestamp in (SpecialTimestamp.EARLIEST, SpecialTimestamp.EARLIEST_LOCAL):
        at = TimedOffset(partition.log.log_start_offset, NO_TIMESTAMP, epoch_at_start(partition))
    elif timestamp in (SpecialTimestamp.LATEST_TIERED, SpecialTimestamp.EARLIEST_PENDING_UPLOAD):
        at = NOT_FOUND  # tiered storage is not supported
    else:
        return LookUp(partition, timestamp, rows)
    return response_row(index, at, call)


async def look_up(
    partition: Partition, timestamp: int, request: ListOffsetsRequest, call: Call
) -> ListOffsetsPartitionResponse:
    """Reads and decompresses records in a thread: batches can be on disk or very large."""
    index = partition.index
    try:
        found = await record_at(
            partition, None if timestamp == SpecialTimestamp.MAX_TIMESTAMP else timestamp
        )
    except LogClosed:
        return refused(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    except (CorruptLog, CorruptBatch):
        return refused(index, ErrorCode.CORRUPT_MESSAGE)
    except OSError as error:
        logger.warning(
            "%s: lookup by timestamp failed (%s); the client gets KAFKA_STORAGE_ERROR",
            partition,
            error,
        )
        return refused(index, ErrorCode.KAFKA_STORAGE_ERROR)
    if found is None or found.offset >= latest(partition, request):
        if not is_available(partition, request):
            return refused(index, not_available(call))
        found = NOT_FOUND
    return response_row(index, found, call)


def response_row(index: int, found: TimedOffset, call: Call) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(
        partition_index=index,
        error_code=ErrorCode.NONE,
        timestamp=found.timestamp_ms,
        offset=found.offset,
        leader_epoch=found.leader_epoch if call.version >= EPOCHS_SINCE_VERSION else NO_EPOCH,
    )


def is_supported(timestamp: int, version: int) -> bool:
    since = SINCE_VERSION.get(timestamp)
    return since is not None and version >= since


def latest(partition: Partition, request: ListOffsetsRequest) -> int:
    if request.replica_id != CONSUMER:
        return partition.log.log_end_offset
    if request.isolation_level == Isolation.READ_COMMITTED:
        return partition.last_stable_offset
    return partition.high_watermark


def is_available(partition: Partition, request: ListOffsetsRequest) -> bool:
    return request.replica_id != CONSUMER or partition.offsets_are_known


def not_available(call: Call) -> ErrorCode:
    """Returns the error that makes a client retry (KIP-207)."""
    if call.version >= OFFSET_NOT_AVAILABLE_SINCE_VERSION:
        return ErrorCode.OFFSET_NOT_AVAILABLE
    return ErrorCode.LEADER_NOT_AVAILABLE


def epoch_at_start(partition: Partition) -> int:
    """Returns the leader epoch of the first record, or the current one for an empty log."""
    log = partition.log
    if log.log_start_offset == log.log_end_offset:
        return partition.leadership.leader_epoch
    epoch = log.leader_epochs.epoch_at(log.log_start_offset)
    return NO_EPOCH if epoch is None else epoch


def refused(index: int, code: ErrorCode) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(partition_index=index, error_code=code)
