"""A static member returns after a restart: it takes its old place, and the old self is fenced."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pykbroker.coordination.groups.classic_rebalance import (
    SESSION_TIMER,
    expect_heartbeat,
    rebalance,
)
from pykbroker.coordination.groups.classic_responses import (
    refused_join,
    refused_sync,
    told_generation,
)
from pykbroker.coordination.groups.classic_state import GroupState
from pykbroker_protocol.errors import ErrorCode

if TYPE_CHECKING:
    from pykbroker.coordination.groups.classic_group import ClassicGroup
    from pykbroker.coordination.groups.classic_member import Joining, Member
    from pykbroker.coordination.groups.draft import Draft
    from pykbroker.coordination.groups.settings import GroupSettings
    from pykbroker_protocol.messages.join_group import JoinGroupResponse

SKIP_ASSIGNMENT_SINCE = 9
"""KIP-814: a returning leader learns that it leads, and that there is nothing to assign."""


def return_of_static_member(
    group: ClassicGroup,
    joining: Joining,
    former: Member,
    draft: Draft,
    settings: GroupSettings,
) -> None:
    former_leader = group.leader
    fence(group, former, draft)
    member = take_place(group, joining, former)
    expect_heartbeat(group, member, draft)
    draft.add_reason(f"group {group.group_id}: {member.instance_id} returns as {member.member_id}")
    if group.state is GroupState.STABLE and group.elect_protocol() == group.protocol:
        # Apache Kafka looks at the protocol alone, even where the subscription has changed.
        assignments = {it.member_id: it.assignment for it in group.members.values()}
        generation = group.generation
        write = group.as_write(draft.now_ms, generation=generation, assignments=assignments)
        draft.write([write])
        draft.reply(joining.ticket, told_old_generation(group, joining, member, former_leader))
    else:
        member.join_ticket = joining.ticket
        group.joined.add(member.member_id)
        rebalance(group, draft, settings, f"static member {member.instance_id} returns")


def fence(group: ClassicGroup, former: Member, draft: Draft) -> None:
    code = ErrorCode.FENCED_INSTANCE_ID
    draft.reply(former.join_ticket, refused_join(code, former.member_id))
    draft.reply(former.sync_ticket, refused_sync(code))
    draft.cancel_timer(SESSION_TIMER, group.group_id, former.member_id)


def take_place(group: ClassicGroup, joining: Joining, former: Member) -> Member:
    """A new id in the old place, with the assignment that goes with it."""
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


def told_old_generation(
    group: ClassicGroup, joining: Joining, member: Member, former_leader: str | None
) -> JoinGroupResponse:
    if joining.version >= SKIP_ASSIGNMENT_SINCE:
        leads = group.leader == member.member_id
        return told_generation(group, member, skip_assignment=leads)
    # Older leaders would assign anew, so they are shown their former id as the leader's.
    return told_generation(group, member, leader=former_leader, as_follower=True)
