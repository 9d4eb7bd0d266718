"""How a member comes from what it has to what it is meant to have, one heartbeat at a time.

A member first gives up what is no longer meant for it, and says so; only then does it move on to
the epoch of the target. It is given a partition when the previous holder has said that it stopped.

    STABLE                 it has what it was meant to have at its epoch; a new target moves it on.
    UNREVOKED_PARTITIONS   it was told to give partitions up; a heartbeat that lists what it
                           owns, without these, moves it on. Too late, and it is fenced.
    UNRELEASED_PARTITIONS  it waits for partitions that others hold; each heartbeat looks again.
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
    """Where a member is to get, and what it has said and may know about the way."""

    epoch: int
    """Of the target assignment."""
    target: Assignment
    """Without topics to which the member no longer subscribes."""
    owned: Assignment | None
    """What the member says that it owns; None if it did not say."""
    subscription_changed: bool
    is_free: Callable[[bytes, int], bool]

    def still_owns(self, holding: Holding) -> bool:
        return self.owned is None or overlap(self.owned, holding)


def reconcile(member: ConsumerMember, goal: Goal) -> ConsumerMember:
    """The member after its next step; the same one if there is none to take now."""
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
    kept, surplus = split(member.assigned, goal.target)
    if surplus and goal.still_owns(surplus):
        return advanced(
            member,
            epoch=epoch_while_revoking,
            state=MemberState.UNREVOKED_PARTITIONS,
            assigned=kept,
            revoking=surplus,
        )
    assigned, is_complete = take_what_is_free(kept, goal)
    return advanced(
        member,
        epoch=goal.epoch,
        state=MemberState.STABLE if is_complete else MemberState.UNRELEASED_PARTITIONS,
        assigned=assigned,
        revoking=NO_HOLDING,
    )


def split(assigned: Holding, target: Assignment) -> tuple[Holding, Holding]:
    """What stays with the member, and what it has to give up."""
    kept: dict[bytes, dict[int, int]] = {}
    surplus: dict[bytes, dict[int, int]] = {}
    for topic_id, partitions in assigned.items():
        wanted = target.get(topic_id, frozenset())
        for partition, epoch in partitions.items():
            side = kept if partition in wanted else surplus
            side.setdefault(topic_id, {})[partition] = epoch
    return kept, surplus


def take_what_is_free(kept: Holding, goal: Goal) -> tuple[Holding, bool]:
    """Add what nobody else holds; tells whether that is all of the target."""
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
    """The same member where nothing has changed: then nothing is written either."""
    if (epoch, state, assigned, revoking) == member.place:
        return member
    return member._replace(
        epoch=epoch,
        previous_epoch=member.epoch,
        state=state,
        assigned=assigned,
        revoking=revoking,
    )
