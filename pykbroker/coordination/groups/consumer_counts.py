"""Counts that are updated with each replayed record of a consumer group.

When many members join a large group one after the other, each join needs these counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeVar

from pykbroker.coordination.assignors.assignor import NOTHING
from pykbroker.coordination.groups.member_bytes import bytes_of_consumer_member
from pykbroker_protocol.late_dataclass import dataclass, field

if TYPE_CHECKING:
    from collections.abc import Hashable

    from pykbroker.coordination.assignors.assignor import Assignment
    from pykbroker.coordination.groups.consumer_member import ConsumerMember

Counted = TypeVar("Counted", bound="Hashable")


class AssignmentInputs(NamedTuple):
    """Inputs of an assignment from one member; usually equal for all members of a group."""

    topic_names: frozenset[str]
    topic_regex: str
    rack_id: str | None
    server_assignor: str | None


@dataclass(slots=True)
class GroupCounts:
    assignment_inputs: dict[AssignmentInputs, int] = field(default_factory=dict)
    """Number of members by inputs."""
    target_sizes: dict[str, int] = field(default_factory=dict)
    """Size of the target assignment by member id."""
    target_sizes_by_topic: dict[bytes, int] = field(default_factory=dict)
    """Number of target partitions by topic; a partition of two targets counts twice."""

    member_bytes: int = 0
    """Memory of all members."""

    def copy(self) -> GroupCounts:
        return GroupCounts(
            dict(self.assignment_inputs),
            dict(self.target_sizes),
            dict(self.target_sizes_by_topic),
            self.member_bytes,
        )

    def member_changed(self, before: ConsumerMember | None, after: ConsumerMember | None) -> None:
        """Updates the counts; None before a member joins and after it leaves."""
        if after is not None:
            add(self.assignment_inputs, assignment_inputs_of(after), 1)
            self.member_bytes += bytes_of_consumer_member(after)
        if before is not None:
            add(self.assignment_inputs, assignment_inputs_of(before), -1)
            self.member_bytes -= bytes_of_consumer_member(before)

    def target_changed(
        self, member_id: str, before: Assignment | None, after: Assignment | None
    ) -> None:
        for topic_id, partitions in (before or NOTHING).items():
            add(self.target_sizes_by_topic, topic_id, -len(partitions))
        for topic_id, partitions in (after or NOTHING).items():
            add(self.target_sizes_by_topic, topic_id, len(partitions))
        if after is None:
            self.target_sizes.pop(member_id, None)
        else:
            self.target_sizes[member_id] = sum(map(len, after.values()))


def assignment_inputs_of(member: ConsumerMember) -> AssignmentInputs:
    return AssignmentInputs(
        member.topic_names, member.topic_regex, member.rack_id, member.server_assignor
    )


def add(counts: dict[Counted, int], what: Counted, number: int) -> None:
    """Adds to a count and removes it at zero."""
    count = counts.get(what, 0) + number
    if count:
        counts[what] = count
    else:
        counts.pop(what, None)
