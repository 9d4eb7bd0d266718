"""ListPartitionReassignments: the partitions that are on their way to other brokers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.controller.moves import is_moving
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pykbroker.apis.node import Call
    from pykbroker.controller.image import PartitionImage, TopicImage
    from pykbroker_protocol.messages.list_partition_reassignments import (
        ListPartitionReassignmentsRequest,
    )


def handle(
    request: ListPartitionReassignmentsRequest, call: Call
) -> ListPartitionReassignmentsResponse:
    moving = (
        OngoingTopicReassignment(
            name=topic.name, partitions=[move(it) for it in partitions if is_moving(it)]
        )
        for topic, partitions in asked_for(request, call)
    )
    return ListPartitionReassignmentsResponse(
        error_code=ErrorCode.NONE,
        error_message=None,
        topics=[topic for topic in moving if topic.partitions],
    )


def asked_for(
    request: ListPartitionReassignmentsRequest, call: Call
) -> Iterator[tuple[TopicImage, Iterable[PartitionImage]]]:
    """What does not exist does not move."""
    topics = call.node.image.topics
    if request.topics is None:
        yield from ((topic, topic.partitions) for topic in topics.values())
        return
    for named in request.topics:
        topic = topics.get(named.name)
        if topic is not None:
            wanted = set(named.partition_indexes)
            yield topic, [it for it in topic.partitions if it.index in wanted]


def move(partition: PartitionImage) -> OngoingPartitionReassignment:
    return OngoingPartitionReassignment(
        partition_index=partition.index,
        replicas=partition.replicas,
        adding_replicas=partition.adding,
        removing_replicas=partition.removing,
    )
