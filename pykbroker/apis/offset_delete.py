"""OffsetDelete: deletes committed offsets of partitions that a group does not subscribe to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

if TYPE_CHECKING:
    from pykbroker.apis.node import Call


async def handle(request: OffsetDeleteRequest, call: Call) -> OffsetDeleteResponse:
    node = call.node
    known = [it for topic in request.topics if (it := known_part(topic, call)).partitions]
    response = await node.groups.decide_and_wait(
        request.group_id,
        lambda groups, ticket: groups.offset_delete(
            request.replace(topics=known), ticket=ticket, now_ms=node.clock.now_ms()
        ),
        lambda code: OffsetDeleteResponse(error_code=code, topics=()),
    )
    assert isinstance(response, OffsetDeleteResponse)
    if response.error_code:
        return response
    codes = {
        (topic.name, it.partition_index): it.error_code
        for topic in response.topics
        for it in topic.partitions
    }
    return OffsetDeleteResponse(
        error_code=ErrorCode.NONE, topics=[answered(topic, codes) for topic in request.topics]
    )


def known_part(topic: OffsetDeleteRequestTopic, call: Call) -> OffsetDeleteRequestTopic:
    found = call.node.image.topics.get(topic.name)
    count = 0 if found is None else len(found.partitions)
    known = [it for it in topic.partitions if 0 <= it.partition_index < count]
    return topic.replace(partitions=known)


def answered(
    topic: OffsetDeleteRequestTopic, codes: dict[tuple[str, int], int]
) -> OffsetDeleteResponseTopic:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return OffsetDeleteResponseTopic(
        name=topic.name,
        partitions=[
            OffsetDeleteResponsePartition(
                partition_index=it.partition_index,
                error_code=codes.get((topic.name, it.partition_index), unknown),
            )
            for it in topic.partitions
        ],
    )
