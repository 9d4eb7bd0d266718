"""Who is still there in a classic group: heartbeats, farewells, and sessions that run out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.coordination.groups.classic_join import REASON_LENGTH_MAX
from pykbroker.coordination.groups.classic_rebalance import (
    SESSION_TIMER,
    complete_if_all_have_joined,
    dismiss,
    expect_heartbeat,
    rebalance,
)
from pykbroker.coordination.groups.classic_responses import BATCHED_LEAVE, told_heartbeat
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
        expect_heartbeat(group, group.members[request.member_id], draft)
        code = ANSWERS[group.state].heartbeat
    draft.reply(ticket, told_heartbeat(code))


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
    return (identity.reason or "it gave no reason")[:REASON_LENGTH_MAX]


def leave(group: ClassicGroup, identity: MemberIdentity, draft: Draft) -> MemberResponse:
    code = ErrorCode.NONE
    instance_id = identity.group_instance_id
    member_id = identity.member_id
    if not member_id and instance_id is not None:
        member_id = group.instances.get(instance_id, "")  # an operator removes by name
    if member_id in group.pending:
        forget_pending(group, member_id, draft)
    else:
        code = group.refusal_of_member(member_id, instance_id)
        if code is ErrorCode.NONE:
            dismiss(group, group.members[member_id], draft)
    return MemberResponse(
        member_id=identity.member_id, group_instance_id=instance_id, error_code=code
    )


def forget_pending(group: ClassicGroup, member_id: str, draft: Draft) -> None:
    group.stop_expecting(member_id)
    draft.cancel_timer(SESSION_TIMER, group.group_id, member_id)


def session_is_over(
    group: ClassicGroup, member_id: str, draft: Draft, settings: GroupSettings
) -> None:
    member = group.members.get(member_id)
    if member_id in group.pending:
        draft.add_reason(f"group {group.group_id}: {member_id} never came back with its id")
        forget_pending(group, member_id, draft)
        complete_if_all_have_joined(group, draft)
    elif member is None:
        return
    elif member.waits and not member.is_new:
        expect_heartbeat(group, member, draft)  # it waits for us, not we for it
    else:
        dismiss(group, member, draft)
        rebalance(group, draft, settings, f"no heartbeat came from {member_id}")


def cancel_request(group: ClassicGroup, ticket: Ticket) -> None:
    """Nobody hears this answer any more; the member stays until its session is over."""
    for member in group.members.values():
        if member.join_ticket == ticket:
            member.join_ticket = None
        if member.sync_ticket == ticket:
            member.sync_ticket = None


def loaded(group: ClassicGroup, draft: Draft, settings: GroupSettings) -> None:
    """The members in the log may be alive: their sessions begin anew."""
    for member in group.members.values():
        expect_heartbeat(group, member, draft)
    if group.state is not GroupState.STABLE:
        return
    if group.leader is None:
        rebalance(group, draft, settings, "it has not done so since it is classic again")
    elif len(group.members) > settings.members_max:
        rebalance(group, draft, settings, "it is larger than groups may be")
