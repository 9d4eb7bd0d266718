"""DescribeTopicPartitions: returns topics sorted by name in pages of bounded size."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pykbroker.apis.operations import ALL_ON_A_TOPIC
from pykbroker.apis.reachability import NO_LEADER, Reachability
from pykbroker.apis.slices import Slice, sliced
from pykbroker.internal_topics import is_internal
from pykbroker.metadata.topic_names import refuse_name
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.message import ZERO_UUID
from pykbroker_protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pykbroker.apis.node import Call
    from pykbroker.apis.slices import Slices
    from pykbroker.metadata.image import PartitionImage, TopicImage
    from pykbroker_protocol.messages.describe_topic_partitions import (
        DescribeTopicPartitionsRequest,
    )


@sliced
def handle(
    request: DescribeTopicPartitionsRequest, call: Call
) -> Slices[DescribeTopicPartitionsResponse]:
    count, reachability = Slice(), Reachability(call)
    cursor = request.cursor
    names = sorted({topic.name for topic in request.topics} or call.node.image.topics)
    if cursor is not None:
        if cursor.partition_index < 0 or (request.topics and cursor.topic_name not in names):
            refused = yield from count.each(
                lambda name: refused_row(name, ErrorCode.INVALID_REQUEST), names
            )
            return page(refused, None)
        names = [name for name in names if name >= cursor.topic_name]
    bound = call.node.settings.max_request_partition_size_limit
    left = max(1, min(request.response_partition_limit, bound))
    topics: list[DescribeTopicPartitionsResponseTopic] = []
    for name in names:
        if count.is_full():
            yield
        topic = call.node.image.topics.get(name)
        if topic is None:
            topics.append(missing_row(name))
            continue
        if left == 0:
            return page(topics, Cursor(topic_name=name, partition_index=0))
        first = cursor.partition_index if cursor is not None and cursor.topic_name == name else 0
        shown = topic.partitions[first : first + left]
        topics.append((yield from topic_row(topic, shown, reachability, count)))
        left -= len(shown)
        if first + len(shown) < len(topic.partitions):
            return page(topics, Cursor(topic_name=name, partition_index=first + len(shown)))
    return page(topics, None)


def page(
    topics: Sequence[DescribeTopicPartitionsResponseTopic], next_cursor: Cursor | None
) -> DescribeTopicPartitionsResponse:
    return DescribeTopicPartitionsResponse(topics=topics, next_cursor=next_cursor)


def missing_row(name: str) -> DescribeTopicPartitionsResponseTopic:
    refusal = refuse_name(name)
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if refusal is None else refusal.code
    return refused_row(name, code).replace(topic_authorized_operations=ALL_ON_A_TOPIC)


def refused_row(name: str, code: ErrorCode) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        error_code=code,
        name=name,
        topic_id=ZERO_UUID,
        is_internal=is_internal(name),
        partitions=(),
    )


def topic_row(
    topic: TopicImage,
    partitions: Sequence[PartitionImage],
    reachability: Reachability,
    count: Slice,
) -> Slices[DescribeTopicPartitionsResponseTopic]:
    rows = yield from count.each(partial(partition_row, reachability), partitions)
    return DescribeTopicPartitionsResponseTopic(
        error_code=ErrorCode.NONE,
        name=topic.name,
        topic_id=topic.id,
        is_internal=is_internal(topic.name),
        partitions=rows,
        topic_authorized_operations=ALL_ON_A_TOPIC,
    )


def partition_row(
    reachability: Reachability, partition: PartitionImage
) -> DescribeTopicPartitionsResponsePartition:
    """A missing leader has no error code here, as in Apache Kafka; Metadata has one."""
    has_leader = reachability.leaders[partition.leader] is ErrorCode.NONE
    return DescribeTopicPartitionsResponsePartition(
        error_code=ErrorCode.NONE,
        partition_index=partition.index,
        leader_id=partition.leader if has_leader else NO_LEADER,
        leader_epoch=partition.leader_epoch,
        replica_nodes=partition.replicas,
        isr_nodes=partition.in_sync,
        eligible_leader_replicas=partition.eligible,
        last_known_elr=partition.last_known,
        offline_replicas=reachability.offline[partition.replicas, partition.directories],
    )
