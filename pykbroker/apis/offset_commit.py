"""OffsetCommit: commits offsets of a group.

Unknown partitions get an error here; the group coordinator handles the others.
"""

from __future__ import annotations

from asyncio import Future
from typing import TYPE_CHECKING

from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.offset_commit import (
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

    from pykbroker.apis.node import Call
    from pykbroker_protocol.message import Message
    from pykbroker_protocol.messages.offset_commit import OffsetCommitRequest

    Codes = dict[tuple[str, bytes, int], int]

TOPIC_IDS_SINCE_VERSION = 10


def handle(request: OffsetCommitRequest, call: Call) -> Message | Awaitable[Message]:
    topics = [named(topic, call) for topic in request.topics]
    if all(is_known(topic, call) for topic in topics):
        return commit(request.replace(topics=topics), call)
    return commit_known_part(request, topics, call)


def is_known(topic: OffsetCommitRequestTopic, call: Call) -> bool:
    count = partition_count(topic, call)
    return all(0 <= it.partition_index < count for it in topic.partitions)


def partition_count(topic: OffsetCommitRequestTopic, call: Call) -> int:
    found = call.node.image.topics.get(topic.name)
    return 0 if found is None else len(found.partitions)


async def commit_known_part(
    request: OffsetCommitRequest, topics: Sequence[OffsetCommitRequestTopic], call: Call
) -> OffsetCommitResponse:
    codes: Codes = {}
    existing = [known for topic in topics if (known := known_part(topic, call, codes)).partitions]
    if existing:
        answer = commit(request.replace(topics=existing), call)
        committed = await answer if isinstance(answer, Future) else answer
        assert isinstance(committed, OffsetCommitResponse)
        for topic in committed.topics:
            for it in topic.partitions:
                codes[topic.name, topic.topic_id, it.partition_index] = it.error_code
    return OffsetCommitResponse(topics=[answered(topic, codes) for topic in topics])


def named(topic: OffsetCommitRequestTopic, call: Call) -> OffsetCommitRequestTopic:
    """Returns the topic with both name and id; an unknown id gets the name ""."""
    image = call.node.image
    if call.version >= TOPIC_IDS_SINCE_VERSION:
        by_id = image.topics_by_id.get(topic.topic_id)
        return topic.replace(name="" if by_id is None else by_id.name)
    by_name = image.topics.get(topic.name)
    return topic if by_name is None else topic.replace(topic_id=by_name.id)


def known_part(
    topic: OffsetCommitRequestTopic, call: Call, codes: Codes
) -> OffsetCommitRequestTopic:
    """Returns the topic with its existing partitions; adds the errors of the others to `codes`."""
    count = partition_count(topic, call)
    by_id = call.version >= TOPIC_IDS_SINCE_VERSION and not topic.name
    code = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    known = [it for it in topic.partitions if 0 <= it.partition_index < count]
    for it in topic.partitions:
        if not 0 <= it.partition_index < count:
            codes[topic.name, topic.topic_id, it.partition_index] = code
    return topic.replace(partitions=known)


def commit(request: OffsetCommitRequest, call: Call) -> Message | Future[Message]:
    node = call.node

    def refused(code: ErrorCode) -> OffsetCommitResponse:
        codes = {
            (topic.name, topic.topic_id, it.partition_index): int(code)
            for topic in request.topics
            for it in topic.partitions
        }
        return OffsetCommitResponse(topics=[answered(topic, codes) for topic in request.topics])

    return node.groups.decide(
        request.group_id,
        lambda groups, ticket: groups.offset_commit(
            request, version=call.version, ticket=ticket, now_ms=node.clock.now_ms()
        ),
        refused,
    )


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
