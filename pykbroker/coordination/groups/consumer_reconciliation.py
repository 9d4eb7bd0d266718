"""Reconciles a member's current assignment with its target, one heartbeat at a time.

A member first revokes partitions that are not in its target and confirms it. Then it advances to
the epoch of the target. It gets a partition when the previous owner has confirmed the revocation.

    STABLE                 has the target of its epoch; a new target starts the next step.
    UNREVOKED_PARTITIONS   must revoke partitions; a heartbeat that no longer lists them as
                           owned completes the step. After a timeout the member is fenced.
    UNRELEASED_PARTITIONS  waits for partitions of other members; each heartbeat checks again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from pykbroker.coordination.groups.consumer_member import (
    NO_HOLDING,
    ConsumerMember,
    Holding,
    MemberState,
    overlap,
)
from pykbroker_protocol.late_dataclass import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable

    from pykbroker.coordination.assignors.assignor import Assignment


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """The target of a member, and other inputs of its next step."""

    epoch: int
    """Epoch of the target assignment."""
    target: Assignment
    """Target without topics that the member no longer subscribes to."""
    owned: Assignment | None
    """Partitions reported as owned; None if not reported."""
    subscription_changed: bool
    is_free: Callable[[bytes, int], bool]

    def still_owns(self, holding: Holding) -> bool:
        return self.owned is None or overlap(self.owned, holding)


def reconcile(member: ConsumerMember, goal: Goal) -> ConsumerMember:
    """Returns the member after its next step, or the same object if there is none."""
    match member.state:
        case MemberState.STABLE:
            if member.epoch != goal.epoch:
                return step(member, goal, member.epoch)
            return step(member, goal, member.epoch) if goal.subscription_changed else member
        case MemberState.UNREVOKED_PARTITIONS:
            if goal.still_owns(member.revoking):
                return member
            return step(member, goal, min(member.epoch + 1, goal.epoch))
        case MemberState.UNRELEASED_PARTITIONS:
            return step(member, goal, member.epoch)
    assert_never(member.state)


def step(member: ConsumerMember, goal: Goal, epoch_while_revoking: int) -> ConsumerMember:
    kept, surplus = split_by_target(member.assigned, goal.target)
    if surplus and goal.still_owns(surplus):
        return advanced(
            member,
            epoch=epoch_while_revoking,
            state=MemberState.UNREVOKED_PARTITIONS,
            assigned=kept,
            revoking=surplus,
        )
    assigned, is_complete = add_free_partitions(kept, goal)
    return advanced(
        member,
        epoch=goal.epoch,
        state=MemberState.STABLE if is_complete else MemberState.UNRELEASED_PARTITIONS,
        assigned=assigned,
        revoking=NO_HOLDING,
    )


def split_by_target(assigned: Holding, target: Assignment) -> tuple[Holding, Holding]:
    """Splits the assignment into partitions to keep and to revoke."""
    kept: dict[bytes, dict[int, int]] = {}
    surplus: dict[bytes, dict[int, int]] = {}
    for topic_id, partitions in assigned.items():
        targeted = target.get(topic_id, frozenset())
        for partition, epoch in partitions.items():
            side = kept if partition in targeted else surplus
            side.setdefault(topic_id, {})[partition] = epoch
    return kept, surplus


def add_free_partitions(kept: Holding, goal: Goal) -> tuple[Holding, bool]:
    """Adds target partitions without owner; returns whether the target is complete."""
    taken = {topic_id: dict(partitions) for topic_id, partitions in kept.items()}
    is_complete = True
    for topic_id, partitions in goal.target.items():
        for partition in sorted(partitions - kept.get(topic_id, {}).keys()):
            if goal.is_free(topic_id, partition):
                taken.setdefault(topic_id, {})[partition] = goal.epoch
            else:
                is_complete = False
    return taken, is_complete


def advanced(
    member: ConsumerMember, *, epoch: int, state: MemberState, assigned: Holding, revoking: Holding
) -> ConsumerMember:
    """Returns the changed member, or the same object if nothing changed."""
    if (epoch, state, assigned, revoking) == member.reconciliation_state:
        return member
    return member._replace(
        epoch=epoch,
        previous_epoch=member.epoch,
        state=state,
        assigned=assigned,
        revoking=revoking,
    )
