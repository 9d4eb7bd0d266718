"""OffsetFetch: how far groups have read, one group in old versions and many in new ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.apis.parts import Joined, elements_in, parts_of
from pykbroker.apis.slices import Slice, all_of, sliced
from pykbroker.coordination.groups.offset_fetch import (
    MANY_GROUPS_SINCE,
    asked_groups,
    in_shape_of,
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
ONE_SHAPE = 8
"""Groups are asked in the form that this version and later ones have on the wire."""


@sliced
def handle(request: OffsetFetchRequest, call: Call) -> Slices[OffsetFetchResponse]:
    count = Slice()
    groups = yield from all_of(
        fetch_in_parts(it, request, call, count) for it in asked_groups(request, call.version)
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
    asked: OffsetFetchRequestGroup, request: OffsetFetchRequest, call: Call, count: Slice
) -> Slices[OffsetFetchResponseGroup]:
    log = call.node.groups.find(asked.group_id)
    if isinstance(log, ErrorCode):
        return refused(asked, log, call.version)
    names_none = asked.topics is None
    if names_none:
        asked = asked.replace(topics=log.state.topics_committed(asked.group_id))
    group = Joined()
    for part in parts_of(asked, "topics", SLICE_ELEMENTS):
        topics = part.topics or () if names_none else [named(it, call) for it in part.topics or ()]
        fetched = fetch(part.replace(topics=topics), request, log, call)
        group.add(fetched)
        if count.is_full(elements_in(part)):
            yield
        if fetched.error_code:
            break
    whole: OffsetFetchResponseGroup = group.response()
    return whole


def fetch(
    asked: OffsetFetchRequestGroup,
    request: OffsetFetchRequest,
    log: CoordinatedLog[Groups],
    call: Call,
) -> OffsetFetchResponseGroup:
    by_id = call.version >= TOPIC_IDS_SINCE_VERSION
    topics = asked.topics or ()
    known = [it for it in topics if it.name] if by_id else topics
    answer = log.state.offset_fetch(
        OffsetFetchRequest(
            groups=[asked.replace(topics=known)], require_stable=request.require_stable
        ),
        version=ONE_SHAPE,
    )
    (group,) = answer.groups
    if group.error_code or not by_id:
        return group
    missing = [without_topic(it, ErrorCode.UNKNOWN_TOPIC_ID) for it in topics if not it.name]
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
