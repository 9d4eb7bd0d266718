"""DeleteRecords: advances the log start offset of partitions, on the leader and on followers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from pykbroker.apis.slices import Slice, sliced
from pykbroker.internal_topics import is_internal
from pykbroker.partitions.waiting import wait_for_deletion
from pykbroker_protocol.errors import ErrorCode, Refusal
from pykbroker_protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from pykbroker.apis.node import Call
    from pykbroker.apis.slices import Slices
    from pykbroker.clock import Clock
    from pykbroker.partitions.partition import Partition
    from pykbroker_protocol.messages.delete_records import (
        DeleteRecordsPartition,
        DeleteRecordsRequest,
    )

NO_OFFSET = HIGH_WATERMARK = -1
"""In requests, -1 is the high watermark."""
PARTITION_WEIGHT = 16
"""Elements that a partition counts for in a slice: files are renamed and written."""


class Deletion(NamedTuple):
    """The outcome for one partition, before followers have deleted the records, too."""

    number: int
    code: ErrorCode = ErrorCode.NONE
    partition: Partition | None = None
    offset: int = NO_OFFSET
    """The requested log start offset."""
    low_watermark: int = NO_OFFSET


Topics = list[tuple[str, list[Deletion]]]


@sliced
def handle(
    request: DeleteRecordsRequest, call: Call
) -> Slices[DeleteRecordsResponse | Awaitable[DeleteRecordsResponse]]:
    count, topics, waits = Slice(), [], False
    for topic in request.topics:
        deletions = []
        for it in topic.partitions:
            deletion = delete(topic.name, it, call)
            waits = waits or deletion.low_watermark < deletion.offset
            deletions.append(deletion)
            if count.is_full(PARTITION_WEIGHT):
                yield
        topics.append((topic.name, deletions))
    if waits:
        return answer_when_deleted(topics, request.timeout_ms / 1000, call)
    return response_of(topics)


async def answer_when_deleted(
    topics: Topics, seconds_max: float, call: Call
) -> DeleteRecordsResponse:
    """Waits for the live followers, whose next fetches state their log start offsets."""
    settled = await asyncio.gather(
        *(
            until_deleted(it, seconds_max, call.node.clock)
            for _, deletions in topics
            for it in deletions
        )
    )
    found = iter(settled)
    return response_of([(name, [next(found) for _ in rows]) for name, rows in topics])


async def until_deleted(deletion: Deletion, seconds_max: float, clock: Clock) -> Deletion:
    partition = deletion.partition
    if partition is None or deletion.low_watermark >= deletion.offset:
        return deletion
    code = await wait_for_deletion(partition, deletion.offset, seconds_max, clock=clock)
    if code is ErrorCode.REQUEST_TIMED_OUT:
        return deletion._replace(code=code)
    low_watermark = partition.low_watermark if code is ErrorCode.NONE else NO_OFFSET
    return deletion._replace(code=code, low_watermark=low_watermark)


def response_of(topics: Topics) -> DeleteRecordsResponse:
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=name,
                partitions=[
                    DeleteRecordsPartitionResult(
                        partition_index=it.number,
                        low_watermark=it.low_watermark,
                        error_code=it.code,
                    )
                    for it in deletions
                ],
            )
            for name, deletions in topics
        ]
    )


def delete(topic: str, requested: DeleteRecordsPartition, call: Call) -> Deletion:
    """Advances the log start offset of the leader."""
    index = requested.partition_index
    partition = call.node.partitions.get(topic, index)
    if partition is None:
        return Deletion(index, call.node.error_without_replica(topic, index))
    if is_internal(topic):
        return Deletion(index, ErrorCode.INVALID_TOPIC_EXCEPTION)
    if not partition.leads:
        return Deletion(index, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    if "delete" not in partition.settings.cleanup_policy:
        return Deletion(index, ErrorCode.POLICY_VIOLATION)
    offset = partition.high_watermark if requested.offset == HIGH_WATERMARK else requested.offset
    outcome = partition.delete_records_before(offset, call.node.clock.now_ms())
    if isinstance(outcome, Refusal):
        return Deletion(index, outcome.code)
    return Deletion(
        index, partition=partition, offset=offset, low_watermark=partition.low_watermark
    )
