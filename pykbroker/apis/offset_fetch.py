"""OffsetFetch: how far groups have read, one group in old versions and many in new ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.coordination.groups.offset_fetch import asked_groups, in_shape_of, without_offset
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponseGroup,
    OffsetFetchResponseTopics,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pykbroker.apis.node import Call
    from pykbroker_protocol.messages.offset_fetch import (
        OffsetFetchRequestGroup,
        OffsetFetchRequestTopics,
        OffsetFetchResponse,
    )

GROUP_ERRORS_SINCE_VERSION = 2
TOPIC_IDS_SINCE_VERSION = 10
ONE_SHAPE = 8
"""Groups are asked in the form that this version and later ones have on the wire."""


def handle(request: OffsetFetchRequest, call: Call) -> OffsetFetchResponse:
    groups = [fetch(it, request, call) for it in asked_groups(request, call.version)]
    return in_shape_of(groups, call.version)


def fetch(
    asked: OffsetFetchRequestGroup, request: OffsetFetchRequest, call: Call
) -> OffsetFetchResponseGroup:
    log = call.node.groups.find(asked.group_id)
    if isinstance(log, ErrorCode):
        return refused(asked, log, call.version)
    by_id = call.version >= TOPIC_IDS_SINCE_VERSION
    topics = None if asked.topics is None else [named(it, call) for it in asked.topics]
    known = [it for it in topics if it.name] if by_id and topics is not None else topics
    answer = log.state.offset_fetch(
        OffsetFetchRequest(
            groups=[asked.replace(topics=known)], require_stable=request.require_stable
        ),
        version=ONE_SHAPE,
    )
    (group,) = answer.groups
    if group.error_code or not by_id:
        return group
    missing = (
        []
        if topics is None
        else [without_topic(it, ErrorCode.UNKNOWN_TOPIC_ID) for it in topics if not it.name]
    )
    return group.replace(topics=[*with_ids(group.topics, call), *missing])


def refused(
    asked: OffsetFetchRequestGroup, code: ErrorCode, version: int
) -> OffsetFetchResponseGroup:
    """The oldest version has no place for an error but beside each partition."""
    if version >= GROUP_ERRORS_SINCE_VERSION:
        return OffsetFetchResponseGroup(group_id=asked.group_id, topics=(), error_code=code)
    topics = [without_topic(it, code) for it in asked.topics or ()]
    return OffsetFetchResponseGroup(group_id=asked.group_id, topics=topics)


def named(topic: OffsetFetchRequestTopics, call: Call) -> OffsetFetchRequestTopics:
    """With both name and id where the cluster knows them; without a name where it does not."""
    image = call.node.image
    if call.version >= TOPIC_IDS_SINCE_VERSION:
        by_id = image.topics_by_id.get(topic.topic_id)
        return topic.replace(name="" if by_id is None else by_id.name)
    by_name = image.topics.get(topic.name)
    return topic if by_name is None else topic.replace(topic_id=by_name.id)


def with_ids(
    topics: Sequence[OffsetFetchResponseTopics], call: Call
) -> list[OffsetFetchResponseTopics]:
    """A topic that is gone has no id any more, and cannot be told of."""
    found = ((topic, call.node.image.topics.get(topic.name)) for topic in topics)
    return [topic.replace(topic_id=known.id) for topic, known in found if known is not None]


def without_topic(asked: OffsetFetchRequestTopics, code: ErrorCode) -> OffsetFetchResponseTopics:
    return OffsetFetchResponseTopics(
        name=asked.name,
        topic_id=asked.topic_id,
        partitions=[without_offset(it, code) for it in asked.partition_indexes],
    )
