"""DeleteRecords: advances the log start offset of partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.apis.slices import Slice, sliced
from pykbroker.internal_topics import is_internal
from pykbroker_protocol.errors import ErrorCode, Refusal
from pykbroker_protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

if TYPE_CHECKING:
    from pykbroker.apis.node import Call
    from pykbroker.apis.slices import Slices
    from pykbroker_protocol.messages.delete_records import (
        DeleteRecordsPartition,
        DeleteRecordsRequest,
    )

NO_OFFSET = -1
PARTITION_WEIGHT = 16
"""Elements that a partition counts for in a slice: files are renamed and written."""


@sliced
def handle(request: DeleteRecordsRequest, call: Call) -> Slices[DeleteRecordsResponse]:
    count, topics = Slice(), []
    for topic in request.topics:
        partitions = []
        for it in topic.partitions:
            partitions.append(result(topic.name, it, call))
            if count.is_full(PARTITION_WEIGHT):
                yield
        topics.append(DeleteRecordsTopicResult(name=topic.name, partitions=partitions))
    return DeleteRecordsResponse(topics=topics)


def result(
    topic: str, requested: DeleteRecordsPartition, call: Call
) -> DeleteRecordsPartitionResult:
    outcome = delete(topic, requested, call)
    if isinstance(outcome, Refusal):
        return DeleteRecordsPartitionResult(
            partition_index=requested.partition_index,
            low_watermark=NO_OFFSET,
            error_code=outcome.code,
        )
    return DeleteRecordsPartitionResult(
        partition_index=requested.partition_index, low_watermark=outcome, error_code=ErrorCode.NONE
    )


def delete(topic: str, requested: DeleteRecordsPartition, call: Call) -> int | Refusal:
    """Returns the new log start offset or an error."""
    partition = call.node.partitions.get(topic, requested.partition_index)
    if partition is None:
        return Refusal(call.node.error_without_replica(topic, requested.partition_index))
    if is_internal(topic):
        return Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION)
    if not partition.leads:
        return Refusal(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    if "delete" not in partition.settings.cleanup_policy:
        return Refusal(ErrorCode.POLICY_VIOLATION)
    return partition.delete_records_before(requested.offset, call.node.clock.now_ms())
