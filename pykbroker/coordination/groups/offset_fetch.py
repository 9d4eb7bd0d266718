"""OffsetFetch: returns committed offsets, in the form of each version."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.coordination.groups.committed import NO_LEADER_EPOCH, NO_OFFSET
from pykbroker.coordination.groups.offsets import is_of_another_topic
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pykbroker.coordination.groups.committed import CommittedOffsets
    from pykbroker.coordination.groups.group import Group
    from pykbroker_protocol.messages.offset_fetch import OffsetFetchRequest

MANY_GROUPS_SINCE = 8


def requested_groups(
    request: OffsetFetchRequest, version: int
) -> Sequence[OffsetFetchRequestGroup]:
    """Returns the groups of a request in the form of version 8."""
    if version >= MANY_GROUPS_SINCE:
        return request.groups
    topics = None
    if request.topics is not None:
        topics = [
            OffsetFetchRequestTopics(name=it.name, partition_indexes=it.partition_indexes)
            for it in request.topics
        ]
    return (OffsetFetchRequestGroup(group_id=request.group_id, topics=topics),)


def fetch_of_group(
    requested: OffsetFetchRequestGroup,
    group: Group | None,
    offsets: CommittedOffsets,
    *,
    require_stable: bool,
) -> OffsetFetchResponseGroup:
    """Returns the offsets of one group; an unknown group has none, without an error."""
    if group is not None:
        code = group.refusal_of_fetch(
            member_id=requested.member_id, member_epoch=requested.member_epoch
        )
        if code is not ErrorCode.NONE:
            return OffsetFetchResponseGroup(group_id=requested.group_id, topics=(), error_code=code)
    topics = requested.topics
    if topics is None:
        topics = known_topics(requested.group_id, offsets)
    return OffsetFetchResponseGroup(
        group_id=requested.group_id,
        topics=[
            OffsetFetchResponseTopics(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    fetch_partition(
                        requested.group_id, topic, partition, offsets, require_stable=require_stable
                    )
                    for partition in topic.partition_indexes
                ],
            )
            for topic in topics
        ],
    )


def known_topics(group_id: str, offsets: CommittedOffsets) -> list[OffsetFetchRequestTopics]:
    return [
        OffsetFetchRequestTopics(name=topic, partition_indexes=list(partitions))
        for topic, partitions in offsets.of_group(group_id).items()
    ]


def fetch_partition(
    group_id: str,
    topic: OffsetFetchRequestTopics,
    partition: int,
    offsets: CommittedOffsets,
    *,
    require_stable: bool,
) -> OffsetFetchResponsePartitions:
    if require_stable and offsets.is_pending(group_id, topic.name, partition):
        return without_offset(partition, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    committed = offsets.of_partition(group_id, topic.name, partition)
    if committed is None or is_of_another_topic(committed, topic.topic_id):
        return without_offset(partition, ErrorCode.NONE)
    return OffsetFetchResponsePartitions(
        partition_index=partition,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
    )


def without_offset(partition: int, code: ErrorCode) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=partition,
        committed_offset=NO_OFFSET,
        committed_leader_epoch=NO_LEADER_EPOCH,
        metadata="",
        error_code=code,
    )


def in_shape_of(groups: Sequence[OffsetFetchResponseGroup], version: int) -> OffsetFetchResponse:
    """Builds the response; versions before 8 contain a single group without a list."""
    if version >= MANY_GROUPS_SINCE:
        return OffsetFetchResponse(groups=groups)
    (group,) = groups
    return OffsetFetchResponse(
        error_code=group.error_code,
        topics=[
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=it.partition_index,
                        committed_offset=it.committed_offset,
                        committed_leader_epoch=it.committed_leader_epoch,
                        metadata=it.metadata,
                        error_code=it.error_code,
                    )
                    for it in topic.partitions
                ],
            )
            for topic in group.topics
        ],
    )
