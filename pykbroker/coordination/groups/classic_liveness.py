"""Heartbeat, LeaveGroup and session timeouts of a classic group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.coordination.groups.classic_join import REASON_LENGTH_MAX
from pykbroker.coordination.groups.classic_rebalance import (
    SESSION_TIMER,
    complete_if_all_have_joined,
    rebalance,
    remove_member,
    start_session_timer,
)
from pykbroker.coordination.groups.classic_responses import BATCHED_LEAVE, heartbeat_response
from pykbroker.coordination.groups.classic_state import ANSWERS, GroupState
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.leave_group import MemberIdentity, MemberResponse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pykbroker.coordination.groups.classic_group import ClassicGroup
    from pykbroker.coordination.groups.draft import Draft
    from pykbroker.coordination.groups.settings import GroupSettings
    from pykbroker.coordination.outcome import Ticket
    from pykbroker_protocol.messages.heartbeat import HeartbeatRequest
    from pykbroker_protocol.messages.leave_group import LeaveGroupRequest


def heartbeat(group: ClassicGroup, request: HeartbeatRequest, ticket: Ticket, draft: Draft) -> None:
    code = group.refusal_of_member(
        request.member_id, request.group_instance_id, request.generation_id
    )
    if code is ErrorCode.NONE:
        start_session_timer(group, group.members[request.member_id], draft)
        code = ANSWERS[group.state].heartbeat
    draft.reply(ticket, heartbeat_response(code))


def leaving_members(request: LeaveGroupRequest, version: int) -> Sequence[MemberIdentity]:
    if version >= BATCHED_LEAVE:
        return request.members
    return (MemberIdentity(member_id=request.member_id),)


def leave_group(
    group: ClassicGroup,
    identities: Sequence[MemberIdentity],
    draft: Draft,
    settings: GroupSettings,
) -> list[MemberResponse]:
    members_before = len(group.members)
    answers = [leave(group, identity, draft) for identity in identities]
    left = [
        f"{it.member_id or it.group_instance_id} leaves ({reason_of(it)})"
        for it, answer in zip(identities, answers, strict=True)
        if answer.error_code == ErrorCode.NONE
    ]
    if len(group.members) < members_before:
        rebalance(group, draft, settings, ", ".join(left))
    else:
        complete_if_all_have_joined(group, draft)
    return answers


def reason_of(identity: MemberIdentity) -> str:
    return (identity.reason or "no reason given")[:REASON_LENGTH_MAX]


def leave(group: ClassicGroup, identity: MemberIdentity, draft: Draft) -> MemberResponse:
    code = ErrorCode.NONE
    instance_id = identity.group_instance_id
    member_id = identity.member_id
    if not member_id and instance_id is not None:
        member_id = group.instances.get(instance_id, "")  # operators use the instance id only
    if member_id in group.pending:
        remove_pending_member(group, member_id, draft)
    else:
        code = group.refusal_of_member(member_id, instance_id)
        if code is ErrorCode.NONE:
            remove_member(group, group.members[member_id], draft)
    return MemberResponse(
        member_id=identity.member_id, group_instance_id=instance_id, error_code=code
    )


def remove_pending_member(group: ClassicGroup, member_id: str, draft: Draft) -> None:
    group.remove_pending(member_id)
    draft.cancel_timer(SESSION_TIMER, group.group_id, member_id)


def on_session_timeout(
    group: ClassicGroup, member_id: str, draft: Draft, settings: GroupSettings
) -> None:
    member = group.members.get(member_id)
    if member_id in group.pending:
        draft.add_reason(f"group {group.group_id}: {member_id} did not join with its allocated id")
        remove_pending_member(group, member_id, draft)
        complete_if_all_have_joined(group, draft)
    elif member is None:
        return
    elif member.has_parked_request and not member.is_new:
        start_session_timer(group, member, draft)  # the member waits for a response
    else:
        remove_member(group, member, draft)
        rebalance(group, draft, settings, f"session of {member_id} timed out")


def cancel_request(group: ClassicGroup, ticket: Ticket) -> None:
    """Drops a parked request; the member stays until its session times out."""
    for member in group.members.values():
        if member.join_ticket == ticket:
            member.join_ticket = None
        if member.sync_ticket == ticket:
            member.sync_ticket = None


def loaded(group: ClassicGroup, draft: Draft, settings: GroupSettings) -> None:
    """Restarts the sessions of all members after loading, because they may be alive."""
    for member in group.members.values():
        start_session_timer(group, member, draft)
    if group.state is not GroupState.STABLE:
        return
    if group.leader is None:
        rebalance(group, draft, settings, "the group was converted from a consumer group")
    elif len(group.members) > settings.members_max:
        rebalance(group, draft, settings, "the group exceeds group.max.size")
