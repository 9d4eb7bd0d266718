"""How groups and offsets end: deleted by an operator, or expired with nobody left to read on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.coordination.groups.classic_group import ClassicGroup
from pykbroker.coordination.groups.classic_liveness import forget_pending
from pykbroker.coordination.groups.classic_state import ANSWERS, GroupState
from pykbroker.coordination.groups.committed import NEVER
from pykbroker.coordination.groups.offsets import forget
from pykbroker_protocol.errors import ErrorCode

if TYPE_CHECKING:
    from pykbroker.coordination.groups.committed import Committed, CommittedOffsets, Place
    from pykbroker.coordination.groups.draft import Draft
    from pykbroker.coordination.groups.group import Group


def delete_group(group: Group | None, offsets: CommittedOffsets, draft: Draft) -> ErrorCode:
    if group is None:
        return ANSWERS[GroupState.DEAD].deletion
    code = group.refusal_of_deletion()
    if code is ErrorCode.NONE:
        draft.write(forget(all_places(group.group_id, offsets)))
        forget_group(group, draft)
    return code


def forget_group(group: Group, draft: Draft) -> None:
    draft.write(group.tombstones())
    draft.add_reason(f"group {group.group_id} is forgotten")
    if isinstance(group, ClassicGroup):
        for member_id in sorted(group.pending):
            forget_pending(group, member_id, draft)


def all_places(group_id: str, offsets: CommittedOffsets) -> list[Place]:
    of_group = offsets.of_group(group_id)
    places = [(topic, it) for topic, partitions in of_group.items() for it in partitions]
    pending = sorted(set(offsets.pending_places(group_id)).difference(places))
    return [(group_id, topic, partition) for topic, partition in (*places, *pending)]


def expire(group: Group, offsets: CommittedOffsets, draft: Draft, retention_ms: int) -> None:
    """With the last offset of an empty group goes the group."""
    places = expired_places(group, offsets, draft.now_ms, retention_ms)
    draft.write(forget(places))
    is_bare = len(places) == len(all_places(group.group_id, offsets))
    is_awaited = isinstance(group, ClassicGroup) and group.pending
    if is_bare and group.is_empty and not is_awaited:
        forget_group(group, draft)


def expired_places(
    group: Group, offsets: CommittedOffsets, now_ms: int, retention_ms: int
) -> list[Place]:
    """Offsets past their retention, of topics that nobody in the group reads."""
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
        return now_ms >= committed.expire_timestamp_ms  # asked for by clients of old
    return now_ms - ages_from_ms >= retention_ms
