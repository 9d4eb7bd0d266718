"""ListPartitionReassignments: lists partitions that are being reassigned."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.apis.slices import Slice, sliced
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pykbroker.apis.node import Call
    from pykbroker.apis.slices import Slices
    from pykbroker.metadata.image import PartitionImage, TopicImage
    from pykbroker_protocol.errors import Refusal
    from pykbroker_protocol.messages.list_partition_reassignments import (
        ListPartitionReassignmentsRequest,
    )


@sliced
def handle(
    request: ListPartitionReassignmentsRequest, call: Call
) -> Slices[ListPartitionReassignmentsResponse]:
    count, topics = Slice(), []
    for topic, partitions in requested_partitions(request, call):
        if topic is not None:
            moving = [move(it) for it in partitions if it.is_reassigning]
            if moving:
                topics.append(OngoingTopicReassignment(name=topic.name, partitions=moving))
        if count.is_full(1 + len(topic.partitions if topic is not None else ())):
            yield
    return ListPartitionReassignmentsResponse(
        error_code=ErrorCode.NONE, error_message=None, topics=topics
    )


def requested_partitions(
    request: ListPartitionReassignmentsRequest, call: Call
) -> Iterator[tuple[TopicImage | None, Iterable[PartitionImage]]]:
    """Yields topics and their requested partitions; None for a topic that does not exist."""
    topics = call.node.image.topics
    if request.topics is None:
        yield from ((topic, topic.partitions) for topic in list(topics.values()))
        return
    for named in request.topics:
        topic = topics.get(named.name)
        indexes = set(named.partition_indexes)
        yield topic, [it for it in topic.partitions if it.index in indexes] if topic else ()


def move(partition: PartitionImage) -> OngoingPartitionReassignment:
    return OngoingPartitionReassignment(
        partition_index=partition.index,
        replicas=partition.replicas,
        adding_replicas=partition.adding,
        removing_replicas=partition.removing,
    )


def failed(
    request: ListPartitionReassignmentsRequest, refusal: Refusal, _call: Call
) -> ListPartitionReassignmentsResponse:
    return ListPartitionReassignmentsResponse(
        error_code=refusal.code,
        error_message=refusal.message,
        topics=[
            OngoingTopicReassignment(
                name=topic.name,
                partitions=[
                    OngoingPartitionReassignment(
                        partition_index=index,
                        replicas=(),
                        adding_replicas=(),
                        removing_replicas=(),
                    )
                    for index in topic.partition_indexes
                ],
            )
            for topic in request.topics or ()
        ],
    )
