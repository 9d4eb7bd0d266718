"""OffsetCommit: how far a group has read, written down before it is answered.

What names no partition of this cluster is refused here; the rest goes to the group.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.offset_commit import (
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from pykbroker.apis.node import Call
    from pykbroker_protocol.messages.offset_commit import OffsetCommitRequest

    Codes = dict[tuple[str, bytes, int], int]

TOPIC_IDS_SINCE_VERSION = 10


async def handle(request: OffsetCommitRequest, call: Call) -> OffsetCommitResponse:
    topics = [named(topic, call) for topic in request.topics]
    codes: Codes = {}
    asked = [known for topic in topics if (known := known_part(topic, call, codes)).partitions]
    if asked or not topics:
        committed = await commit(request.replace(topics=asked), call)
        for topic in committed.topics:
            for it in topic.partitions:
                codes[topic.name, topic.topic_id, it.partition_index] = it.error_code
    return OffsetCommitResponse(topics=[answered(topic, codes) for topic in topics])


def named(topic: OffsetCommitRequestTopic, call: Call) -> OffsetCommitRequestTopic:
    """With the name beside the id, or the id beside the name, where the cluster knows it."""
    image = call.node.image
    if call.version >= TOPIC_IDS_SINCE_VERSION:
        by_id = image.topics_by_id.get(topic.topic_id)
        return topic.replace(name="" if by_id is None else by_id.name)
    by_name = image.topics.get(topic.name)
    return topic if by_name is None else topic.replace(topic_id=by_name.id)


def known_part(
    topic: OffsetCommitRequestTopic, call: Call, codes: Codes
) -> OffsetCommitRequestTopic:
    """The partitions that exist; the others get their error at once."""
    found = call.node.image.topics.get(topic.name)
    count = 0 if found is None else len(found.partitions)
    by_id = call.version >= TOPIC_IDS_SINCE_VERSION and found is None
    code = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    known = [it for it in topic.partitions if 0 <= it.partition_index < count]
    for it in topic.partitions:
        if not 0 <= it.partition_index < count:
            codes[topic.name, topic.topic_id, it.partition_index] = code
    return topic.replace(partitions=known)


async def commit(request: OffsetCommitRequest, call: Call) -> OffsetCommitResponse:
    node = call.node

    def refused(code: ErrorCode) -> OffsetCommitResponse:
        codes = {
            (topic.name, topic.topic_id, it.partition_index): int(code)
            for topic in request.topics
            for it in topic.partitions
        }
        return OffsetCommitResponse(topics=[answered(topic, codes) for topic in request.topics])

    response = await node.groups.decide_and_wait(
        request.group_id,
        lambda groups, ticket: groups.offset_commit(
            request, version=call.version, ticket=ticket, now_ms=node.clock.now_ms()
        ),
        refused,
    )
    assert isinstance(response, OffsetCommitResponse)
    return response


def answered(topic: OffsetCommitRequestTopic, codes: Codes) -> OffsetCommitResponseTopic:
    return OffsetCommitResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            OffsetCommitResponsePartition(
                partition_index=it.partition_index,
                error_code=codes[topic.name, topic.topic_id, it.partition_index],
            )
            for it in topic.partitions
        ],
    )
