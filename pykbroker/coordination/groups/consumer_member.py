"""A member of a consumer group: subscription, epoch and assigned partitions."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pykbroker.coordination.assignors.assignor import Assignment
    from pykbroker_protocol.internal_topics.consumer_groups import ClassicMemberMetadata

JOINING = 0
LEAVING = -1
LEAVING_TEMPORARILY = -2
"""Special epochs; a restarting static member leaves temporarily."""

Holding = Mapping[bytes, Mapping[int, int]]
"""Partitions by topic id, each with the member epoch at which it was assigned."""

NO_HOLDING: Holding = {}


class MemberState(IntEnum):
    """Reconciliation state, numbered as in the records."""

    STABLE = 0
    """The member has its target of its epoch."""
    UNREVOKED_PARTITIONS = 1
    """The member must revoke partitions and has not confirmed it."""
    UNRELEASED_PARTITIONS = 2
    """The member waits for partitions that other members still own."""


class ConsumerMember(NamedTuple):
    """A member; a tuple, because each replayed record creates it twice."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topic_names: frozenset[str] = frozenset()
    topic_regex: str = ""
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    classic: ClassicMemberMetadata | None = None
    """Set for a member of the classic protocol."""

    epoch: int = JOINING
    previous_epoch: int = JOINING
    state: MemberState = MemberState.STABLE
    assigned: Holding = NO_HOLDING
    revoking: Holding = NO_HOLDING
    """Partitions that the member must revoke before others get them."""

    @property
    def is_away(self) -> bool:
        return self.epoch == LEAVING_TEMPORARILY

    @property
    def reconciliation_state(self) -> tuple[int, MemberState, Holding, Holding]:
        """Its state of reconciliation."""
        return self.epoch, self.state, self.assigned, self.revoking

    def has_reached(self, assignment_epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == assignment_epoch


def numbers(holding: Holding) -> Assignment:
    """Returns the partitions without epochs."""
    return {topic_id: frozenset(partitions) for topic_id, partitions in holding.items()}


def is_within(claimed: Assignment, holding: Holding) -> bool:
    return all(
        partitions <= holding.get(topic_id, {}).keys() for topic_id, partitions in claimed.items()
    )


def overlap(claimed: Assignment, holding: Holding) -> bool:
    return any(
        not partitions.isdisjoint(holding.get(topic_id, {}))
        for topic_id, partitions in claimed.items()
    )
