"""What is counted of a consumer group as its records are replayed, and not looked up each time.

A large group that many join one after the other asks these questions at each join.
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


class Wish(NamedTuple):
    """What an assignment depends on: mostly, all members of a group wish for the same."""

    topic_names: frozenset[str]
    topic_regex: str
    rack_id: str | None
    server_assignor: str | None


@dataclass(slots=True)
class Tallies:
    wishes: dict[Wish, int] = field(default_factory=dict)
    """How many members wish for each."""
    meant_for: dict[str, int] = field(default_factory=dict)
    """How many partitions are in the target of each member, by member id."""
    meant_by_topic: dict[bytes, int] = field(default_factory=dict)
    """How many partitions of each topic are in targets; one that is meant for two counts twice."""

    member_bytes: int = 0
    """What the members hold in memory by their own choice."""

    def copy(self) -> Tallies:
        return Tallies(
            dict(self.wishes),
            dict(self.meant_for),
            dict(self.meant_by_topic),
            self.member_bytes,
        )

    def member_changed(self, before: ConsumerMember | None, after: ConsumerMember | None) -> None:
        """None for one that is not there before, or no longer is."""
        if after is not None:
            add(self.wishes, wish_of(after), 1)
            self.member_bytes += bytes_of_consumer_member(after)
        if before is not None:
            add(self.wishes, wish_of(before), -1)
            self.member_bytes -= bytes_of_consumer_member(before)

    def target_changed(
        self, member_id: str, before: Assignment | None, after: Assignment | None
    ) -> None:
        for topic_id, partitions in (before or NOTHING).items():
            add(self.meant_by_topic, topic_id, -len(partitions))
        for topic_id, partitions in (after or NOTHING).items():
            add(self.meant_by_topic, topic_id, len(partitions))
        if after is None:
            self.meant_for.pop(member_id, None)
        else:
            self.meant_for[member_id] = sum(map(len, after.values()))


def wish_of(member: ConsumerMember) -> Wish:
    return Wish(member.topic_names, member.topic_regex, member.rack_id, member.server_assignor)


def add(counts: dict[Counted, int], what: Counted, number: int) -> None:
    """What nobody has any more is not kept."""
    count = counts.get(what, 0) + number
    if count:
        counts[what] = count
    else:
        counts.pop(what, None)
