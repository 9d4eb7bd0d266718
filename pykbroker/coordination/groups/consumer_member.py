"""A member of a consumer group: what it asked for, and how far it has come with its share."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pykbroker.coordination.assignors.assignor import Assignment
    from pykbroker_protocol.internal_topics.consumer_groups import ClassicMemberMetadata

JOINING = 0
LEAVING = -1
LEAVING_FOR_A_WHILE = -2
"""Epochs with a meaning of their own; a static member that is restarting leaves for a while."""

Holding = Mapping[bytes, Mapping[int, int]]
"""Partitions by topic id, each with the member epoch at which it was given."""

NO_HOLDING: Holding = {}


class MemberState(IntEnum):
    """As the records number them."""

    STABLE = 0
    """It has what it was meant to have at its epoch."""
    UNREVOKED_PARTITIONS = 1
    """It was told to give partitions up and has not said yet that it did."""
    UNRELEASED_PARTITIONS = 2
    """It waits for partitions that others still hold."""


class ConsumerMember(NamedTuple):
    """A tuple, because each record of a member that is replayed makes it anew, twice."""

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
    """Set for a member that speaks the classic protocol."""

    epoch: int = JOINING
    previous_epoch: int = JOINING
    state: MemberState = MemberState.STABLE
    assigned: Holding = NO_HOLDING
    revoking: Holding = NO_HOLDING
    """What it must give up before anyone else is given it."""

    @property
    def is_away(self) -> bool:
        return self.epoch == LEAVING_FOR_A_WHILE

    @property
    def place(self) -> tuple[int, MemberState, Holding, Holding]:
        """Where it stands on its way to its target."""
        return self.epoch, self.state, self.assigned, self.revoking

    def has_reached(self, assignment_epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == assignment_epoch


def numbers(holding: Holding) -> Assignment:
    """The partitions alone."""
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
