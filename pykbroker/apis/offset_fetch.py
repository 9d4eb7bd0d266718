"""OffsetFetch: returns committed offsets of one group or, since version 8, of several."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.apis.parts import Joined, elements_in, parts_of
from pykbroker.apis.slices import Slice, all_of, sliced
from pykbroker.coordination.groups.offset_fetch import (
    MANY_GROUPS_SINCE,
    in_shape_of,
    requested_groups,
    without_offset,
)
from pykbroker_protocol.compiler import SLICE_ELEMENTS
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponseGroup,
    OffsetFetchResponseTopics,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pykbroker.apis.node import Call
    from pykbroker.apis.slices import Slices
    from pykbroker.coordination.groups.registry import Groups
    from pykbroker.coordinators.coordinated_log import CoordinatedLog
    from pykbroker_protocol.messages.offset_fetch import (
        OffsetFetchRequestGroup,
        OffsetFetchRequestTopics,
        OffsetFetchResponse,
    )

GROUP_ERRORS_SINCE_VERSION = 2
TOPIC_IDS_SINCE_VERSION = 10
COMMON_VERSION = 8
"""The version whose format is passed to the group coordinator."""


@sliced
def handle(request: OffsetFetchRequest, call: Call) -> Slices[OffsetFetchResponse]:
    count = Slice()
    groups = yield from all_of(
        fetch_in_parts(it, request, call, count) for it in requested_groups(request, call.version)
    )
    if call.version >= MANY_GROUPS_SINCE:
        return in_shape_of(groups, call.version)
    shaped = Joined()
    for part in parts_of(groups[0], "topics", SLICE_ELEMENTS):
        shaped.add(in_shape_of([part], call.version))
        if count.is_full(elements_in(part)):
            yield
    response: OffsetFetchResponse = shaped.response()
    return response


def fetch_in_parts(
    requested: OffsetFetchRequestGroup, request: OffsetFetchRequest, call: Call, count: Slice
) -> Slices[OffsetFetchResponseGroup]:
    log = call.node.groups.find(requested.group_id)
    if isinstance(log, ErrorCode):
        return refused(requested, log, call.version)
    all_topics = requested.topics is None
    if all_topics:
        requested = requested.replace(topics=log.state.topics_committed(requested.group_id))
    group = Joined()
    for part in parts_of(requested, "topics", SLICE_ELEMENTS):
        topics = part.topics or () if all_topics else [named(it, call) for it in part.topics or ()]
        fetched = fetch(part.replace(topics=topics), request, log, call)
        group.add(fetched)
        if count.is_full(elements_in(part)):
            yield
        if fetched.error_code:
            break
    whole: OffsetFetchResponseGroup = group.response()
    return whole


def fetch(
    requested: OffsetFetchRequestGroup,
    request: OffsetFetchRequest,
    log: CoordinatedLog[Groups],
    call: Call,
) -> OffsetFetchResponseGroup:
    by_id = call.version >= TOPIC_IDS_SINCE_VERSION
    topics = requested.topics or ()
    known = [it for it in topics if it.name] if by_id else topics
    answer = log.state.offset_fetch(
        OffsetFetchRequest(
            groups=[requested.replace(topics=known)], require_stable=request.require_stable
        ),
        version=COMMON_VERSION,
    )
    (group,) = answer.groups
    if group.error_code or not by_id:
        return group
    missing = [without_topic(it, ErrorCode.UNKNOWN_TOPIC_ID) for it in topics if not it.name]
    return group.replace(topics=[*with_ids(group.topics, call), *missing])


def refused(
    requested: OffsetFetchRequestGroup, code: ErrorCode, version: int
) -> OffsetFetchResponseGroup:
    """Returns an error for the group; version 1 has error codes only per partition."""
    if version >= GROUP_ERRORS_SINCE_VERSION:
        return OffsetFetchResponseGroup(group_id=requested.group_id, topics=(), error_code=code)
    topics = [without_topic(it, code) for it in requested.topics or ()]
    return OffsetFetchResponseGroup(group_id=requested.group_id, topics=topics)


def named(topic: OffsetFetchRequestTopics, call: Call) -> OffsetFetchRequestTopics:
    """Returns the topic with both name and id; an unknown id gets the name ""."""
    image = call.node.image
    if call.version >= TOPIC_IDS_SINCE_VERSION:
        by_id = image.topics_by_id.get(topic.topic_id)
        return topic.replace(name="" if by_id is None else by_id.name)
    by_name = image.topics.get(topic.name)
    return topic if by_name is None else topic.replace(topic_id=by_name.id)


def with_ids(
    topics: Sequence[OffsetFetchResponseTopics], call: Call
) -> list[OffsetFetchResponseTopics]:
    """Adds topic ids; omits deleted topics, which have no id."""
    found = ((topic, call.node.image.topics.get(topic.name)) for topic in topics)
    return [topic.replace(topic_id=known.id) for topic, known in found if known is not None]


def without_topic(
    requested: OffsetFetchRequestTopics, code: ErrorCode
) -> OffsetFetchResponseTopics:
    return OffsetFetchResponseTopics(
        name=requested.name,
        topic_id=requested.topic_id,
        partitions=[without_offset(it, code) for it in requested.partition_indexes],
    )
