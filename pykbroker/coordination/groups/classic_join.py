"""JoinGroup in a classic group: new members, rejoining members and static members."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.coordination.groups.classic_member import Member
from pykbroker.coordination.groups.classic_rebalance import (
    SESSION_TIMER,
    complete_if_all_have_joined,
    rebalance,
    remove_member,
    start_session_timer,
)
from pykbroker.coordination.groups.classic_responses import generation_response, refused_join
from pykbroker.coordination.groups.classic_state import ANSWERS, GroupState, OnRejoin
from pykbroker.coordination.groups.static_member_return import return_of_static_member
from pykbroker_protocol.errors import ErrorCode

if TYPE_CHECKING:
    from pykbroker.coordination.groups.classic_group import ClassicGroup
    from pykbroker.coordination.groups.classic_member import JoinContext
    from pykbroker.coordination.groups.draft import Draft
    from pykbroker.coordination.groups.settings import GroupSettings

REASON_LENGTH_MAX = 255
"""Kafka's clients truncate their reasons to this length (KIP-800)."""
MEMBER_ID_REQUIRED_SINCE = 4
"""First version in which a new member gets an id and joins again with it (KIP-394)."""


def join_group(
    group: ClassicGroup, joining: JoinContext, draft: Draft, settings: GroupSettings
) -> None:
    request = joining.request
    returns = request.group_instance_id in group.instances and not request.member_id
    if not returns and is_full(group, request.member_id, settings):
        reject_join(group, joining, draft)
    elif not group.supports(request.protocol_type, joining.protocols):
        refuse(joining, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, draft)
    elif not request.member_id:
        join_without_id(group, joining, draft, settings)
    elif request.member_id in group.pending and request.group_instance_id is None:
        add_member(group, joining, request.member_id, draft, settings)
    else:
        join_known_member(group, joining, draft, settings)


def refuse(joining: JoinContext, code: ErrorCode, draft: Draft) -> None:
    draft.reply(joining.ticket, refused_join(code, joining.request.member_id))


def is_full(group: ClassicGroup, member_id: str, settings: GroupSettings) -> bool:
    """Returns whether the group is full; during a rebalance only joined members count."""
    match group.state:
        case GroupState.PREPARING_REBALANCE:
            return member_id not in group.joined and len(group.joined) >= settings.members_max
        case GroupState.COMPLETING_REBALANCE | GroupState.STABLE:
            return member_id not in group.members and len(group.members) >= settings.members_max
        case _:
            return False


def reject_join(group: ClassicGroup, joining: JoinContext, draft: Draft) -> None:
    draft.reply(joining.ticket, refused_join(ErrorCode.GROUP_MAX_SIZE_REACHED))
    member_id = joining.request.member_id
    member = group.members.get(member_id)
    if member is not None:
        remove_member(group, member, draft)
    elif member_id in group.pending:
        group.remove_pending(member_id)
        draft.cancel_timer(SESSION_TIMER, group.group_id, member_id)
    complete_if_all_have_joined(group, draft)


def join_without_id(
    group: ClassicGroup, joining: JoinContext, draft: Draft, settings: GroupSettings
) -> None:
    instance_id = joining.request.group_instance_id
    former = None if instance_id is None else group.instances.get(instance_id)
    if former is not None:
        return_of_static_member(group, joining, group.members[former], draft, settings)
    elif instance_id is None and joining.version >= MEMBER_ID_REQUIRED_SINCE:
        allocate_member_id(group, joining, draft)
    else:
        add_member(group, joining, joining.new_member_id, draft, settings)


def allocate_member_id(group: ClassicGroup, joining: JoinContext, draft: Draft) -> None:
    member_id = joining.new_member_id
    group.add_pending(member_id)
    timeout_ms = joining.request.session_timeout_ms
    draft.set_timer(SESSION_TIMER, group.group_id, member_id, after_ms=timeout_ms)
    draft.reply(joining.ticket, refused_join(ErrorCode.MEMBER_ID_REQUIRED, member_id))


def add_member(
    group: ClassicGroup,
    joining: JoinContext,
    member_id: str,
    draft: Draft,
    settings: GroupSettings,
) -> None:
    request = joining.request
    if not group.members:
        group.protocol_type = request.protocol_type
    member = Member(
        member_id=member_id,
        instance_id=request.group_instance_id,
        client_id=joining.client_id,
        client_host=joining.client_host,
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=joining.rebalance_timeout_ms,
        protocols=joining.protocols,
        is_new=True,
        join_ticket=joining.ticket,
    )
    group.add(member)
    if group.initial_delay is not None:
        group.initial_delay.grew = True
    # The member cannot send heartbeats before its JoinGroup response. If its connection is lost
    # unnoticed, it joins again; this timer removes the first attempt.
    after_ms = settings.newcomer_join_timeout_ms
    draft.set_timer(SESSION_TIMER, group.group_id, member_id, after_ms=after_ms)
    rebalance(group, draft, settings, join_reason(joining, f"{member_id} joins"))


def join_known_member(
    group: ClassicGroup, joining: JoinContext, draft: Draft, settings: GroupSettings
) -> None:
    request = joining.request
    code = group.refusal_of_member(request.member_id, request.group_instance_id)
    if code is not ErrorCode.NONE:
        refuse(joining, code, draft)
        return
    member = group.members[request.member_id]
    if can_repeat_response(group, member, joining):
        start_session_timer(group, member, draft)
        draft.reply(joining.ticket, generation_response(group, member))
    else:
        rejoin(group, member, joining, draft, settings)


def can_repeat_response(group: ClassicGroup, member: Member, joining: JoinContext) -> bool:
    unchanged = list(joining.protocols.items()) == list(member.protocols.items())
    match ANSWERS[group.state].rejoin:
        case OnRejoin.REPEATS_RESPONSE_UNLESS_CHANGED:
            return unchanged
        case OnRejoin.REPEATS_RESPONSE_UNLESS_CHANGED_OR_LEADER:
            return unchanged and group.leader != member.member_id
        case _:
            return False


def rejoin(
    group: ClassicGroup,
    member: Member,
    joining: JoinContext,
    draft: Draft,
    settings: GroupSettings,
) -> None:
    # The connection of an earlier request of this member is most likely lost.
    draft.reply(member.join_ticket, refused_join(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id))
    member.join_ticket = joining.ticket
    group.joined.add(member.member_id)
    group.change(
        member,
        protocols=joining.protocols,
        session_timeout_ms=joining.request.session_timeout_ms,
        rebalance_timeout_ms=joining.rebalance_timeout_ms,
    )
    rebalance(group, draft, settings, join_reason(joining, f"{member.member_id} rejoins"))


def join_reason(joining: JoinContext, what_happens: str) -> str:
    reason = joining.request.reason
    return f"{what_happens} ({reason[:REASON_LENGTH_MAX]})" if reason else what_happens
