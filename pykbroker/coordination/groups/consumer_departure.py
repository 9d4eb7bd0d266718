"""Members that leave a consumer group: by request, temporarily, or fenced by a timeout."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.coordination.groups import consumer_records as records
from pykbroker.coordination.groups.consumer_checks import identified
from pykbroker.coordination.groups.consumer_decision import MEMBER_TIMERS, REVOCATION
from pykbroker.coordination.groups.consumer_member import (
    LEAVING_TEMPORARILY,
    NO_HOLDING,
    ConsumerMember,
    MemberState,
)
from pykbroker.coordination.groups.consumer_migration import downgrade, is_due_for_downgrade
from pykbroker.coordination.groups.consumer_subscription import drop_unused_regex
from pykbroker_protocol.errors import ErrorCode, Refusal
from pykbroker_protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pykbroker.coordination.groups.consumer_cache import GroupCache
    from pykbroker.coordination.groups.consumer_decision import Decision
    from pykbroker_protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest


def leave(
    decision: Decision, cache: GroupCache, request: ConsumerGroupHeartbeatRequest
) -> ConsumerGroupHeartbeatResponse | Refusal:
    """Decides a heartbeat with an epoch below zero."""
    member = identified(decision.state, request.member_id, request.instance_id)
    if isinstance(member, Refusal):
        return member
    if request.member_epoch == LEAVING_TEMPORARILY:
        leave_temporarily(decision, member)
    else:
        remove(decision, cache, [member], "left")
    return ConsumerGroupHeartbeatResponse(
        error_code=ErrorCode.NONE,
        member_id=member.member_id,
        member_epoch=request.member_epoch,
        heartbeat_interval_ms=0,
    )


def leave_temporarily(decision: Decision, member: ConsumerMember) -> None:
    """Lets a static member leave temporarily; it keeps its partitions until the session timeout."""
    away = member._replace(epoch=LEAVING_TEMPORARILY, revoking=NO_HOLDING)
    if away != member:
        decision.write(records.current_assignment(decision.group_id, away))
    decision.cancel_timer(REVOCATION, member.member_id)


def fence(decision: Decision, cache: GroupCache, kind: str, member_id: str) -> None:
    """Fences a member after one of its timers fired."""
    member = decision.state.members.get(member_id)
    if member is None or (
        kind == REVOCATION and member.state is not MemberState.UNREVOKED_PARTITIONS
    ):
        return
    remove(decision, cache, [member], f"was fenced ({kind.replace('-', ' ')} timeout)")


def remove(
    decision: Decision, cache: GroupCache, members: Sequence[ConsumerMember], why: str
) -> None:
    """Removes members; the others get their partitions, possibly in a classic group."""
    leaving = {it.member_id for it in members}
    for member in members:
        cache.rejoin_requested_at_ms.pop(member.member_id, None)
        decision.draft.add_reason(f"group {decision.group_id}: member {member.member_id} {why}")
    if is_due_for_downgrade(decision.state, leaving, decision.settings):
        downgrade(decision, leaving, rebalances=True)
        return
    for member in members:
        decision.write(*records.without_member(decision.group_id, member.member_id))
        drop_unused_regex(decision, member.topic_regex)
        for kind in MEMBER_TIMERS:
            decision.cancel_timer(kind, member.member_id)
    state = decision.state
    metadata_hash = cache.fingerprint(state.subscriptions(), decision.topics)
    decision.write(records.group_epoch(state.group_id, state.epoch + 1, metadata_hash))
