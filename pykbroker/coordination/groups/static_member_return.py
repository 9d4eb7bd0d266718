"""A static member returns after a restart, replaces its old instance and fences it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pykbroker.coordination.groups.classic_rebalance import (
    SESSION_TIMER,
    rebalance,
    start_session_timer,
)
from pykbroker.coordination.groups.classic_responses import (
    generation_response,
    refused_join,
    refused_sync,
)
from pykbroker.coordination.groups.classic_state import GroupState
from pykbroker_protocol.errors import ErrorCode

if TYPE_CHECKING:
    from pykbroker.coordination.groups.classic_group import ClassicGroup
    from pykbroker.coordination.groups.classic_member import JoinContext, Member
    from pykbroker.coordination.groups.draft import Draft
    from pykbroker.coordination.groups.settings import GroupSettings
    from pykbroker_protocol.messages.join_group import JoinGroupResponse

SKIP_ASSIGNMENT_SINCE = 9
"""First version in which a returning leader skips the assignment (KIP-814)."""


def return_of_static_member(
    group: ClassicGroup,
    joining: JoinContext,
    former: Member,
    draft: Draft,
    settings: GroupSettings,
) -> None:
    former_leader = group.leader
    fence(group, former, draft)
    member = replace_member(group, joining, former)
    start_session_timer(group, member, draft)
    draft.add_reason(f"group {group.group_id}: {member.instance_id} returns as {member.member_id}")
    if group.state is GroupState.STABLE and group.elect_protocol() == group.protocol:
        # Apache Kafka compares only the protocol, even if the subscription has changed.
        assignments = {it.member_id: it.assignment for it in group.members.values()}
        generation = group.generation
        write = group.as_write(draft.now_ms, generation=generation, assignments=assignments)
        draft.write([write])
        draft.reply(
            joining.ticket, previous_generation_response(group, joining, member, former_leader)
        )
    else:
        member.join_ticket = joining.ticket
        group.joined.add(member.member_id)
        rebalance(group, draft, settings, f"static member {member.instance_id} returns")


def fence(group: ClassicGroup, former: Member, draft: Draft) -> None:
    code = ErrorCode.FENCED_INSTANCE_ID
    draft.reply(former.join_ticket, refused_join(code, former.member_id))
    draft.reply(former.sync_ticket, refused_sync(code))
    draft.cancel_timer(SESSION_TIMER, group.group_id, former.member_id)


def replace_member(group: ClassicGroup, joining: JoinContext, former: Member) -> Member:
    """Creates the member with a new id and the previous assignment."""
    member = replace(
        former,
        member_id=joining.new_member_id,
        session_timeout_ms=joining.request.session_timeout_ms,
        rebalance_timeout_ms=joining.rebalance_timeout_ms,
        protocols=joining.protocols,
        join_ticket=None,
        sync_ticket=None,
    )
    group.substitute(former, member)
    return member


def previous_generation_response(
    group: ClassicGroup, joining: JoinContext, member: Member, former_leader: str | None
) -> JoinGroupResponse:
    if joining.version >= SKIP_ASSIGNMENT_SINCE:
        leads = group.leader == member.member_id
        return generation_response(group, member, skip_assignment=leads)
    # Older leaders would assign again, so the response names their former id as leader.
    return generation_response(group, member, leader=former_leader, as_follower=True)
