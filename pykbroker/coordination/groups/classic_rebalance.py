"""How a classic group gets from one generation to the next: called together, completed, agreed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.coordination.groups.classic_group import Gathering
from pykbroker.coordination.groups.classic_responses import (
    refused_join,
    refused_sync,
    told_generation,
    told_to_rejoin,
)
from pykbroker.coordination.groups.classic_state import GroupState
from pykbroker_protocol.errors import ErrorCode

if TYPE_CHECKING:
    from pykbroker.coordination.groups.classic_group import ClassicGroup
    from pykbroker.coordination.groups.classic_member import Member
    from pykbroker.coordination.groups.draft import Draft
    from pykbroker.coordination.groups.settings import GroupSettings

SESSION_TIMER, JOIN_TIMER, SYNC_TIMER = "session", "join", "sync"
WRITE_AGAIN_MS = 1_000


def rebalance(group: ClassicGroup, draft: Draft, settings: GroupSettings, reason: str) -> None:
    """Start a rebalance, or see whether the one under way is complete by now."""
    if group.state is GroupState.PREPARING_REBALANCE:
        complete_if_all_have_joined(group, draft)
    else:
        call_together(group, draft, settings, reason)


def call_together(group: ClassicGroup, draft: Draft, settings: GroupSettings, reason: str) -> None:
    draft.add_reason(
        f"group {group.group_id} rebalances after generation {group.generation}: {reason}"
    )
    if group.state is GroupState.COMPLETING_REBALANCE:
        for member in group.members.values():
            send_back_to_join(group, member, draft)
    draft.cancel_timer(SYNC_TIMER, group.group_id)
    group.unsynced.clear()
    was_empty = group.is_empty
    group.move(GroupState.PREPARING_REBALANCE)
    if was_empty and settings.initial_rebalance_delay_ms > 0:
        gather(group, draft, settings)
    elif group.all_have_joined or was_empty:
        complete(group, draft)
    else:
        draft.set_timer(JOIN_TIMER, group.group_id, after_ms=group.rebalance_timeout_ms)


def send_back_to_join(group: ClassicGroup, member: Member, draft: Draft) -> None:
    """The generation ends before its assignment came: whoever waits for it joins again."""
    member.assignment = b""
    group.count(member)
    if member.sync_ticket is not None:
        draft.reply(member.sync_ticket, told_to_rejoin())
        member.sync_ticket = None
        expect_heartbeat(group, member, draft)


def gather(group: ClassicGroup, draft: Draft, settings: GroupSettings) -> None:
    """Wait for company, and longer while more come, but no longer than a rebalance may take."""
    delay_ms = settings.initial_rebalance_delay_ms
    group.gathering = Gathering(left_ms=max(group.rebalance_timeout_ms - delay_ms, 0))
    draft.set_timer(JOIN_TIMER, group.group_id, after_ms=delay_ms)


def join_time_is_over(group: ClassicGroup, draft: Draft, settings: GroupSettings) -> None:
    if group.state is not GroupState.PREPARING_REBALANCE:
        return
    gathering = group.gathering
    if gathering is not None and gathering.grew and gathering.left_ms > 0:
        delay_ms = min(settings.initial_rebalance_delay_ms, gathering.left_ms)
        group.gathering = Gathering(left_ms=gathering.left_ms - delay_ms)
        draft.set_timer(JOIN_TIMER, group.group_id, after_ms=delay_ms)
    else:
        complete(group, draft)


def complete_if_all_have_joined(group: ClassicGroup, draft: Draft) -> None:
    preparing = group.state is GroupState.PREPARING_REBALANCE
    if preparing and group.gathering is None and group.all_have_joined:
        complete(group, draft)


def complete(group: ClassicGroup, draft: Draft) -> None:
    """All have joined or had the time to: form the next generation from those who came."""
    draft.cancel_timer(JOIN_TIMER, group.group_id)
    group.gathering = None
    drop_absent_members(group, draft)
    if not group.members:
        write_empty_generation(group, draft)
    elif group.elect_leader():
        begin_generation(group, draft)
    else:
        # Only static members are left and none came: their sessions decide how long to wait.
        draft.set_timer(JOIN_TIMER, group.group_id, after_ms=group.rebalance_timeout_ms)


def drop_absent_members(group: ClassicGroup, draft: Draft) -> None:
    """Static members may be restarting: they keep their place until their session expires."""
    for member in list(group.members.values()):
        if member.member_id not in group.joined and member.instance_id is None:
            draft.add_reason(f"group {group.group_id}: {member.member_id} did not rejoin in time")
            dismiss(group, member, draft)


def write_empty_generation(group: ClassicGroup, draft: Draft) -> None:
    """The group becomes empty when this record is replayed; if it cannot be written, it is later.

    Nobody is left whose request or session would lead here again. A timer that rings after the
    record was written finds the group empty.
    """
    generation = group.generation + 1
    draft.set_timer(JOIN_TIMER, group.group_id, after_ms=WRITE_AGAIN_MS)
    draft.write([group.as_write(draft.now_ms, generation=generation, assignments={})])
    draft.add_reason(f"group {group.group_id} is empty at generation {generation}")


def begin_generation(group: ClassicGroup, draft: Draft) -> None:
    group.begin_generation()
    for member in group.members.values():
        draft.reply(member.join_ticket, told_generation(group, member))
        member.join_ticket = None
        member.is_new = False
        expect_heartbeat(group, member, draft)
    draft.set_timer(SYNC_TIMER, group.group_id, after_ms=group.rebalance_timeout_ms)
    draft.add_reason(
        f"group {group.group_id} forms generation {group.generation} of {len(group.members)} "
        f"members with {group.protocol}, led by {group.leader}"
    )


def sync_time_is_over(group: ClassicGroup, draft: Draft, settings: GroupSettings) -> None:
    """Members that joined and never asked for their assignment would hold partitions unread."""
    agreeing = group.state in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE)
    late = [group.members[it] for it in sorted(group.unsynced)] if agreeing else []
    if not late:
        return
    for member in late:
        dismiss(group, member, draft)
    names = ", ".join(member.member_id for member in late)
    call_together(group, draft, settings, f"no SyncGroup came in time from {names}")


def expect_heartbeat(group: ClassicGroup, member: Member, draft: Draft) -> None:
    draft.set_timer(
        SESSION_TIMER, group.group_id, member.member_id, after_ms=member.session_timeout_ms
    )


def dismiss(group: ClassicGroup, member: Member, draft: Draft) -> None:
    """Take a member out; what it waits for will not come, and it is told so."""
    draft.reply(member.join_ticket, refused_join(ErrorCode.UNKNOWN_MEMBER_ID))
    draft.reply(member.sync_ticket, refused_sync(ErrorCode.UNKNOWN_MEMBER_ID))
    draft.cancel_timer(SESSION_TIMER, group.group_id, member.member_id)
    group.remove(member.member_id)
