"""SyncGroup in a classic group: the leader sends the assignment, each member gets its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from pykbroker.coordination.groups.classic_rebalance import SYNC_TIMER, start_session_timer
from pykbroker.coordination.groups.classic_responses import (
    assignment_response,
    refused_sync,
    rejoin_response,
)
from pykbroker.coordination.groups.classic_state import ANSWERS, OnSync
from pykbroker_protocol.errors import ErrorCode

if TYPE_CHECKING:
    from pykbroker.coordination.groups.classic_group import ClassicGroup
    from pykbroker.coordination.groups.classic_member import Member
    from pykbroker.coordination.groups.draft import Draft
    from pykbroker.coordination.outcome import Ticket
    from pykbroker_protocol.messages.sync_group import SyncGroupRequest


def sync_group(
    group: ClassicGroup, request: SyncGroupRequest, ticket: Ticket, draft: Draft
) -> None:
    code = refusal_of_sync(group, request)
    if code is not ErrorCode.NONE:
        draft.reply(ticket, refused_sync(code))
        return
    member = group.members[request.member_id]
    match ANSWERS[group.state].sync:
        case OnSync.UNKNOWN_MEMBER:
            draft.reply(ticket, refused_sync(ErrorCode.UNKNOWN_MEMBER_ID))
        case OnSync.MUST_REJOIN:
            draft.reply(ticket, rejoin_response())
        case OnSync.WAITS_FOR_LEADER:
            wait_for_leader(group, member, ticket, draft)
            if group.leader == member.member_id:
                distribute_assignment(group, request, draft)
        case OnSync.RETURNS_ASSIGNMENT:
            mark_synced(group, member, draft)
            start_session_timer(group, member, draft)
            draft.reply(ticket, assignment_response(group, member.assignment))
        case unreachable:
            assert_never(unreachable)


def refusal_of_sync(group: ClassicGroup, request: SyncGroupRequest) -> ErrorCode:
    code = group.refusal_of_member(
        request.member_id, request.group_instance_id, request.generation_id
    )
    if code is not ErrorCode.NONE:
        return code
    agrees = request.protocol_type in (None, group.protocol_type) and (
        group.protocol is None or request.protocol_name in (None, group.protocol)
    )
    return ErrorCode.NONE if agrees else ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def wait_for_leader(group: ClassicGroup, member: Member, ticket: Ticket, draft: Draft) -> None:
    draft.reply(member.sync_ticket, rejoin_response())  # replaced by this later request
    member.sync_ticket = ticket
    mark_synced(group, member, draft)


def mark_synced(group: ClassicGroup, member: Member, draft: Draft) -> None:
    if member.member_id in group.unsynced:
        group.unsynced.remove(member.member_id)
        if not group.unsynced:
            draft.cancel_timer(SYNC_TIMER, group.group_id)


def distribute_assignment(group: ClassicGroup, request: SyncGroupRequest, draft: Draft) -> None:
    """Writes the assignment; the group is stable on replay. Omitted members get an empty one."""
    assignments = {it.member_id: bytes(it.assignment) for it in request.assignments}
    generation = group.generation
    draft.write([group.as_write(draft.now_ms, generation=generation, assignments=assignments)])
    for member in group.members.values():
        if member.sync_ticket is not None:
            assignment = assignments.get(member.member_id, b"")
            draft.reply(member.sync_ticket, assignment_response(group, assignment))
            member.sync_ticket = None
        start_session_timer(group, member, draft)
    draft.add_reason(f"group {group.group_id} is stable at generation {generation}")
