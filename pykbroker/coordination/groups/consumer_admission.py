"""Admission of members to a consumer group, and replacement of static members."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.coordination.groups import consumer_records as records
from pykbroker.coordination.groups.consumer_checks import full, unreleased_instance
from pykbroker.coordination.groups.consumer_decision import MEMBER_TIMERS
from pykbroker.coordination.groups.consumer_member import JOINING, ConsumerMember

if TYPE_CHECKING:
    from pykbroker.coordination.groups.consumer_decision import Decision
    from pykbroker_protocol.errors import Refusal


def admit(
    decision: Decision, member_id: str, instance_id: str | None, *, by_force: bool = False
) -> ConsumerMember | Refusal:
    """Returns the member that joins or rejoins.

    A static member replaces its previous instance, with its assignment, once that has left
    temporarily; in the classic protocol it replaces it immediately (`by_force`).
    """
    state = decision.state
    if refusal := full(state, member_id, decision.settings):
        return refusal
    predecessor_id = None if instance_id is None else state.instances.get(instance_id)
    if predecessor_id is None:
        return state.members.get(member_id) or ConsumerMember(member_id=member_id)
    predecessor = state.members[predecessor_id]
    if predecessor.is_away or (by_force and predecessor_id != member_id):
        return take_over(decision, predecessor, member_id)
    if by_force:
        return predecessor
    assert instance_id is not None
    return unreleased_instance(instance_id, member_id, predecessor_id)


def take_over(decision: Decision, predecessor: ConsumerMember, member_id: str) -> ConsumerMember:
    successor = predecessor._replace(member_id=member_id, epoch=JOINING, previous_epoch=JOINING)
    target = decision.state.target_of(predecessor.member_id)
    decision.write(
        *records.without_member(decision.group_id, predecessor.member_id),
        records.subscription(decision.group_id, successor),
        records.target(decision.group_id, member_id, target),
        records.current_assignment(decision.group_id, successor),
    )
    for kind in MEMBER_TIMERS:
        decision.cancel_timer(kind, predecessor.member_id)
    decision.draft.add_reason(
        f"group {decision.group_id}: static member {predecessor.instance_id} returns as {member_id}"
    )
    return successor
