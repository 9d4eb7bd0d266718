"""ListOffsets: the start, the end, or the offset at a time, answered from values at hand.

Spark asks for start and end after every poll, so the two common questions touch no file.
"""

from __future__ import annotations

import logging
from collections import Counter
from enum import IntEnum
from typing import TYPE_CHECKING

from pykbroker.partitions.isolation import Isolation
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from pykbroker_protocol.records.corrupt import CorruptBatch
from pykbroker_storage.batch_scan import CorruptLog

if TYPE_CHECKING:
    from pykbroker.apis.node import Call
    from pykbroker.partitions.partition import Partition
    from pykbroker_protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest

logger = logging.getLogger(__name__)

NO_OFFSET = NO_TIMESTAMP = NO_EPOCH = -1
DEBUGGING_REPLICA = -2
EPOCHS_SINCE_VERSION = 4


class At(IntEnum):
    """Timestamps that are questions rather than times."""

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3
    EARLIEST_LOCAL = -4
    LATEST_TIERED = -5
    EARLIEST_PENDING_UPLOAD = -6


SINCE_VERSION: dict[int, int] = {
    At.LATEST: 1,
    At.EARLIEST: 1,
    At.MAX_TIMESTAMP: 7,
    At.EARLIEST_LOCAL: 8,
    At.LATEST_TIERED: 9,
    At.EARLIEST_PENDING_UPLOAD: 11,
}


def handle(request: ListOffsetsRequest, call: Call) -> ListOffsetsResponse:
    named = [
        (topic.name, it.partition_index) for topic in request.topics for it in topic.partitions
    ]
    if len(set(named)) < len(named):
        return answer_each_once(request, call, Counter(named))
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[answer(topic.name, it, request, call) for it in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def answer_each_once(
    request: ListOffsetsRequest, call: Call, named: Counter[tuple[str, int]]
) -> ListOffsetsResponse:
    """A partition that is named more than once is refused; the others are answered."""
    topics: dict[str, dict[int, ListOffsetsPartitionResponse]] = {}
    for topic in request.topics:
        rows = topics.setdefault(topic.name, {})
        for it in topic.partitions:
            is_repeated = named[topic.name, it.partition_index] > 1
            rows[it.partition_index] = (
                refused(it.partition_index, ErrorCode.INVALID_REQUEST)
                if is_repeated
                else answer(topic.name, it, request, call)
            )
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(name=name, partitions=list(rows.values()))
            for name, rows in topics.items()
        ]
    )


def answer(
    topic: str, asked: ListOffsetsPartition, request: ListOffsetsRequest, call: Call
) -> ListOffsetsPartitionResponse:
    index = asked.partition_index
    partition = call.node.partitions.get(topic, index)
    if partition is None:
        return refused(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    refusal = partition.epoch_refusal(asked.current_leader_epoch)
    if refusal is not None:
        return refused(index, refusal.code)
    if asked.timestamp < 0 and not is_asked_well(asked.timestamp, call.version):
        return refused(index, ErrorCode.UNSUPPORTED_VERSION)
    try:
        offset, timestamp, epoch = look_up(partition, asked.timestamp, request)
    except (CorruptLog, CorruptBatch):
        return refused(index, ErrorCode.CORRUPT_MESSAGE)
    except OSError as error:
        logger.warning("%s: cannot be searched: %s", partition, error)
        return refused(index, ErrorCode.KAFKA_STORAGE_ERROR)
    return ListOffsetsPartitionResponse(
        partition_index=index,
        error_code=ErrorCode.NONE,
        timestamp=timestamp,
        offset=offset,
        leader_epoch=epoch if call.version >= EPOCHS_SINCE_VERSION else NO_EPOCH,
    )


def is_asked_well(timestamp: int, version: int) -> bool:
    since = SINCE_VERSION.get(timestamp)
    return since is not None and version >= since


def look_up(
    partition: Partition, timestamp: int, request: ListOffsetsRequest
) -> tuple[int, int, int]:
    """Offset, timestamp and leader epoch; -1 for each that there is not."""
    log = partition.log
    if timestamp == At.LATEST:
        return latest(partition, request), NO_TIMESTAMP, partition.leadership.leader_epoch
    if timestamp in (At.EARLIEST, At.EARLIEST_LOCAL):
        return log.log_start_offset, NO_TIMESTAMP, epoch_at_start(partition)
    if timestamp in (At.LATEST_TIERED, At.EARLIEST_PENDING_UPLOAD):
        return NO_OFFSET, NO_TIMESTAMP, NO_EPOCH  # nothing is tiered here
    if timestamp == At.MAX_TIMESTAMP:
        found = log.latest_timestamp_record()
    else:
        found = log.offset_at_timestamp(timestamp)
    if found is None or found.offset >= latest(partition, request):
        return NO_OFFSET, NO_TIMESTAMP, NO_EPOCH
    return found.offset, found.timestamp_ms, found.leader_epoch


def latest(partition: Partition, request: ListOffsetsRequest) -> int:
    if request.replica_id == DEBUGGING_REPLICA:
        return partition.log.log_end_offset
    if request.isolation_level == Isolation.READ_COMMITTED:
        return partition.last_stable_offset
    return partition.high_watermark


def epoch_at_start(partition: Partition) -> int:
    """The epoch of the first record; of the leader, where there is none yet."""
    log = partition.log
    if log.log_start_offset == log.log_end_offset:
        return partition.leadership.leader_epoch
    epoch = log.leader_epochs.epoch_at(log.log_start_offset)
    return NO_EPOCH if epoch is None else epoch


def refused(index: int, code: ErrorCode) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(partition_index=index, error_code=code)
