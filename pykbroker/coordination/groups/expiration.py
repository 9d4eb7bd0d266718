"""Deletes groups and offsets: on request, or after their retention."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.coordination.groups.classic_group import ClassicGroup
from pykbroker.coordination.groups.classic_liveness import remove_pending_member
from pykbroker.coordination.groups.classic_state import ANSWERS, GroupState
from pykbroker.coordination.groups.committed import NEVER
from pykbroker.coordination.groups.offsets import tombstones
from pykbroker_protocol.errors import ErrorCode

if TYPE_CHECKING:
    from pykbroker.coordination.groups.committed import Committed, CommittedOffsets, OffsetKey
    from pykbroker.coordination.groups.draft import Draft
    from pykbroker.coordination.groups.group import Group


def delete_group(group: Group | None, offsets: CommittedOffsets, draft: Draft) -> ErrorCode:
    if group is None:
        return ANSWERS[GroupState.DEAD].deletion
    code = group.refusal_of_deletion()
    if code is ErrorCode.NONE:
        draft.write(tombstones(all_keys(group.group_id, offsets)))
        delete_group_records(group, draft)
    return code


def delete_group_records(group: Group, draft: Draft) -> None:
    draft.write(group.tombstones())
    draft.add_reason(f"group {group.group_id} is deleted")
    if isinstance(group, ClassicGroup):
        for member_id in sorted(group.pending):
            remove_pending_member(group, member_id, draft)


def all_keys(group_id: str, offsets: CommittedOffsets) -> list[OffsetKey]:
    of_group = offsets.of_group(group_id)
    keys = [(topic, it) for topic, partitions in of_group.items() for it in partitions]
    pending = sorted(set(offsets.pending_keys(group_id)).difference(keys))
    return [(group_id, topic, partition) for topic, partition in (*keys, *pending)]


def expire(group: Group, offsets: CommittedOffsets, draft: Draft, retention_ms: int) -> None:
    """Deletes expired offsets; with its last offset an empty group is deleted, too."""
    keys = expired_keys(group, offsets, draft.now_ms, retention_ms)
    draft.write(tombstones(keys))
    is_without_offsets = len(keys) == len(all_keys(group.group_id, offsets))
    has_pending_members = isinstance(group, ClassicGroup) and group.pending
    if is_without_offsets and group.is_empty and not has_pending_members:
        delete_group_records(group, draft)


def expired_keys(
    group: Group, offsets: CommittedOffsets, now_ms: int, retention_ms: int
) -> list[OffsetKey]:
    """Returns offsets past their retention whose topics no member subscribes to."""
    group_id = group.group_id
    return [
        (group_id, topic, partition)
        for topic, partitions in offsets.of_group(group_id).items()
        if not group.reads_topic(topic)
        for partition, committed in partitions.items()
        if is_expired(group, committed, now_ms, retention_ms)
        and not offsets.is_pending(group_id, topic, partition)
    ]


def is_expired(group: Group, committed: Committed, now_ms: int, retention_ms: int) -> bool:
    ages_from_ms = group.offset_ages_from_ms(committed.commit_timestamp_ms)
    if ages_from_ms is None:
        return False
    if committed.expire_timestamp_ms != NEVER:
        return now_ms >= committed.expire_timestamp_ms  # set by old clients
    return now_ms - ages_from_ms >= retention_ms
