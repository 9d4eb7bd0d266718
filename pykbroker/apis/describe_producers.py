"""DescribeProducers: returns active producers and first offsets of open transactions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.apis.slices import Slice, sliced
from pykbroker.metadata.topic_names import refuse_name
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.describe_producers import (
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

if TYPE_CHECKING:
    from pykbroker.apis.node import Call
    from pykbroker.apis.slices import Slices
    from pykbroker.partitions.partition import Partition
    from pykbroker_protocol.messages.describe_producers import DescribeProducersRequest


@sliced
def handle(request: DescribeProducersRequest, call: Call) -> Slices[DescribeProducersResponse]:
    count, topics = Slice(), []
    for topic in request.topics:
        partitions = []
        for index in topic.partition_indexes:
            partitions.append(answer(topic.name, index, call))
            if count.is_full(1 + len(partitions[-1].active_producers)):
                yield
        topics.append(TopicResponse(name=topic.name, partitions=partitions))
        if count.is_full():
            yield
    return DescribeProducersResponse(topics=topics)


def answer(topic: str, index: int, call: Call) -> PartitionResponse:
    if refuse_name(topic) is not None:
        return refused(index, ErrorCode.INVALID_TOPIC_EXCEPTION)
    partition = call.node.partitions.get(topic, index)
    if partition is None:
        return refused(index, call.node.error_without_replica(topic, index))
    return describe(index, partition)


def refused(index: int, code: ErrorCode) -> PartitionResponse:
    return PartitionResponse(partition_index=index, error_code=code, active_producers=())


def describe(index: int, partition: Partition) -> PartitionResponse:
    return PartitionResponse(
        partition_index=index,
        error_code=ErrorCode.NONE,
        active_producers=[
            ProducerState(
                producer_id=it.producer_id,
                producer_epoch=it.producer_epoch,
                last_sequence=it.last_sequence,
                last_timestamp=it.last_timestamp_ms,
                coordinator_epoch=it.coordinator_epoch,
                current_txn_start_offset=it.transaction_first_offset,
            )
            for it in partition.log.producers.active()
        ],
    )
