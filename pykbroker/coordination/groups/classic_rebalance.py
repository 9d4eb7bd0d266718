"""Rebalances of a classic group: from the first JoinGroup to the new generation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.coordination.groups.classic_group import InitialDelay
from pykbroker.coordination.groups.classic_responses import (
    generation_response,
    refused_join,
    refused_sync,
    rejoin_response,
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
    """Starts a rebalance, or completes the running one if all members have joined."""
    if group.state is GroupState.PREPARING_REBALANCE:
        complete_if_all_have_joined(group, draft)
    else:
        prepare_rebalance(group, draft, settings, reason)


def prepare_rebalance(
    group: ClassicGroup, draft: Draft, settings: GroupSettings, reason: str
) -> None:
    draft.add_reason(
        f"group {group.group_id} rebalances after generation {group.generation}: {reason}"
    )
    if group.state is GroupState.COMPLETING_REBALANCE:
        for member in group.members.values():
            request_rejoin_of(group, member, draft)
    draft.cancel_timer(SYNC_TIMER, group.group_id)
    group.unsynced.clear()
    was_empty = group.is_empty
    group.set_state(GroupState.PREPARING_REBALANCE)
    if was_empty and settings.initial_rebalance_delay_ms > 0:
        start_initial_delay(group, draft, settings)
    elif group.all_have_joined or was_empty:
        complete(group, draft)
    else:
        draft.set_timer(JOIN_TIMER, group.group_id, after_ms=group.rebalance_timeout_ms)


def request_rejoin_of(group: ClassicGroup, member: Member, draft: Draft) -> None:
    """Clears the assignment; a parked SyncGroup gets REBALANCE_IN_PROGRESS."""
    member.assignment = b""
    group.count(member)
    if member.sync_ticket is not None:
        draft.reply(member.sync_ticket, rejoin_response())
        member.sync_ticket = None
        start_session_timer(group, member, draft)


def start_initial_delay(group: ClassicGroup, draft: Draft, settings: GroupSettings) -> None:
    """Starts the initial delay; new members extend it up to the rebalance timeout."""
    delay_ms = settings.initial_rebalance_delay_ms
    group.initial_delay = InitialDelay(left_ms=max(group.rebalance_timeout_ms - delay_ms, 0))
    draft.set_timer(JOIN_TIMER, group.group_id, after_ms=delay_ms)


def on_join_timeout(group: ClassicGroup, draft: Draft, settings: GroupSettings) -> None:
    if group.state is not GroupState.PREPARING_REBALANCE:
        return
    initial_delay = group.initial_delay
    if initial_delay is not None and initial_delay.grew and initial_delay.left_ms > 0:
        delay_ms = min(settings.initial_rebalance_delay_ms, initial_delay.left_ms)
        group.initial_delay = InitialDelay(left_ms=initial_delay.left_ms - delay_ms)
        draft.set_timer(JOIN_TIMER, group.group_id, after_ms=delay_ms)
    else:
        complete(group, draft)


def complete_if_all_have_joined(group: ClassicGroup, draft: Draft) -> None:
    preparing = group.state is GroupState.PREPARING_REBALANCE
    if preparing and group.initial_delay is None and group.all_have_joined:
        complete(group, draft)


def complete(group: ClassicGroup, draft: Draft) -> None:
    """Forms the next generation from the joined members."""
    draft.cancel_timer(JOIN_TIMER, group.group_id)
    group.initial_delay = None
    remove_absent_members(group, draft)
    if not group.members:
        write_empty_generation(group, draft)
    elif group.elect_leader():
        begin_generation(group, draft)
    else:
        # Only static members remain and none has joined: wait for their session timeouts.
        draft.set_timer(JOIN_TIMER, group.group_id, after_ms=group.rebalance_timeout_ms)


def remove_absent_members(group: ClassicGroup, draft: Draft) -> None:
    """Removes members that did not join; static members stay until their session times out."""
    for member in list(group.members.values()):
        if member.member_id not in group.joined and member.instance_id is None:
            draft.add_reason(f"group {group.group_id}: {member.member_id} did not rejoin in time")
            remove_member(group, member, draft)


def write_empty_generation(group: ClassicGroup, draft: Draft) -> None:
    """Writes an empty generation; the group is empty when the record is replayed.

    If the record cannot be written, a timer retries, because no request or session of a member
    would. A timer that fires after the record was written finds the group empty.
    """
    generation = group.generation + 1
    draft.set_timer(JOIN_TIMER, group.group_id, after_ms=WRITE_AGAIN_MS)
    draft.write([group.as_write(draft.now_ms, generation=generation, assignments={})])
    draft.add_reason(f"group {group.group_id} is empty at generation {generation}")


def begin_generation(group: ClassicGroup, draft: Draft) -> None:
    group.begin_generation()
    for member in group.members.values():
        draft.reply(member.join_ticket, generation_response(group, member))
        member.join_ticket = None
        member.is_new = False
        start_session_timer(group, member, draft)
    draft.set_timer(SYNC_TIMER, group.group_id, after_ms=group.rebalance_timeout_ms)
    draft.add_reason(
        f"group {group.group_id} forms generation {group.generation} "
        f"(members: {len(group.members)}, protocol: {group.protocol}, leader: {group.leader})"
    )


def on_sync_timeout(group: ClassicGroup, draft: Draft, settings: GroupSettings) -> None:
    """Restarts the rebalance without members that joined but never sent SyncGroup."""
    agreeing = group.state in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE)
    late = [group.members[it] for it in sorted(group.unsynced)] if agreeing else []
    if not late:
        return
    for member in late:
        remove_member(group, member, draft)
    names = ", ".join(member.member_id for member in late)
    prepare_rebalance(group, draft, settings, f"no SyncGroup from {names} within the timeout")


def start_session_timer(group: ClassicGroup, member: Member, draft: Draft) -> None:
    draft.set_timer(
        SESSION_TIMER, group.group_id, member.member_id, after_ms=member.session_timeout_ms
    )


def remove_member(group: ClassicGroup, member: Member, draft: Draft) -> None:
    """Removes a member and answers its parked requests with UNKNOWN_MEMBER_ID."""
    draft.reply(member.join_ticket, refused_join(ErrorCode.UNKNOWN_MEMBER_ID))
    draft.reply(member.sync_ticket, refused_sync(ErrorCode.UNKNOWN_MEMBER_ID))
    draft.cancel_timer(SESSION_TIMER, group.group_id, member.member_id)
    group.remove(member.member_id)
