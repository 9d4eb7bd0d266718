"""The uniform assignor: shares differ by one partition at most, and little moves.

Where all members subscribe to the same topics, each is due the same number of partitions. Where
they do not, partitions wander from the loaded to the idle as long as that evens them out.
Members keep what they have as far as the balance allows. A partition that has to move goes to a
member in a rack of one of its replicas, if one such has room.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.coordination.assignors.question import Place, gather
from pykbroker.coordination.assignors.uniform_mixed import assign_to_mixed_subscribers

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pykbroker.coordination.assignors.question import Assignment, Subscriber, TopicToAssign


def assign_uniform(
    subscribers: Sequence[Subscriber], topics: Mapping[bytes, TopicToAssign]
) -> Mapping[str, Assignment]:
    in_order = sorted(subscribers, key=lambda subscriber: subscriber.lasting_name)
    wanted = {frozenset(it.topic_ids & topics.keys()) for it in in_order}
    if len(wanted) > 1:
        return assign_to_mixed_subscribers(in_order, topics)
    subscribed = {topic_id: topics[topic_id] for one in wanted for topic_id in one}
    return assign_to_equal_subscribers(in_order, subscribed)


def assign_to_equal_subscribers(
    subscribers: Sequence[Subscriber], topics: Mapping[bytes, TopicToAssign]
) -> Mapping[str, Assignment]:
    free = {
        Place(topic_id, partition)
        for topic_id, topic in topics.items()
        for partition in range(topic.partition_count)
    }
    kept = keep_what_is_due(subscribers, free, topics)
    rooms = Rooms(subscribers, kept, free_count=len(free))
    left = rooms.take_near(spread(free), topics)
    rooms.take(left)
    return gather(kept)


def keep_what_is_due(
    subscribers: Sequence[Subscriber], free: set[Place], topics: Mapping[bytes, TopicToAssign]
) -> dict[str, list[Place]]:
    """Let members keep what they own up to their share; what they keep is no longer free."""
    owned = {it.member_id: claim(it, free, topics) for it in subscribers}
    free.update(place for places in owned.values() for place in places)
    share, rest = divmod(len(free), max(len(subscribers), 1))
    kept: dict[str, list[Place]] = {}
    # Who owns most has most to lose: the shares that are larger by one go there first.
    for subscriber in sorted(subscribers, key=lambda it: -len(owned[it.member_id])):
        places = owned[subscriber.member_id]
        rest -= (larger := rest > 0 and len(places) > share)
        kept[subscriber.member_id] = places[: share + larger]
    free.difference_update(place for places in kept.values() for place in places)
    return kept


def claim(
    subscriber: Subscriber, free: set[Place], topics: Mapping[bytes, TopicToAssign]
) -> list[Place]:
    """What a member owns and nobody else has claimed, in the order in which it is kept."""
    places = [
        (rank, place)
        for topic_id, partitions in subscriber.owned.items()
        if topic_id in topics
        for rank, place in enumerate(Place(topic_id, partition) for partition in sorted(partitions))
        if place in free
    ]
    free.difference_update(place for _, place in places)
    return [place for _, place in sorted(places)]


def spread(places: Iterable[Place]) -> list[Place]:
    """In the order of their numbers, topic by topic: neighbours go to different members."""
    return sorted(places)


class Rooms:
    """How much each member may still be given."""

    def __init__(
        self,
        subscribers: Sequence[Subscriber],
        kept: dict[str, list[Place]],
        *,
        free_count: int,
    ) -> None:
        self.kept = kept
        self.racks = {it.member_id: it.rack_id for it in subscribers}
        total = free_count + sum(map(len, kept.values()))
        self.share, rest = divmod(total, max(len(subscribers), 1))
        self.rest = rest - sum(len(places) > self.share for places in kept.values())

    def take_near(self, free: list[Place], topics: Mapping[bytes, TopicToAssign]) -> list[Place]:
        """Hand places to members in one of their racks; gives back those that found none."""
        members_by_rack: dict[str, list[str]] = {}
        for member_id, rack_id in self.racks.items():
            if rack_id is not None:
                members_by_rack.setdefault(rack_id, []).append(member_id)
        if not members_by_rack or not any(topic.racks for topic in topics.values()):
            return free
        left = []
        for place in free:
            racks = topics[place.topic_id].racks
            near = racks[place.partition] if racks else ()
            takers = [it for rack in near for it in members_by_rack.get(rack, ()) if self.room(it)]
            if takers:
                self.give(min(takers, key=lambda it: (len(self.kept[it]), it)), place)
            else:
                left.append(place)
        return left

    def take(self, free: list[Place]) -> None:
        """Deal the places out in turn to the members with room, the emptiest first."""
        waiting = sorted(self.kept, key=lambda it: len(self.kept[it]))
        for turn, place in enumerate(free):
            while not self.room(member_id := waiting[turn % len(waiting)]):
                waiting.pop(turn % len(waiting))
            self.give(member_id, place)

    def room(self, member_id: str) -> bool:
        count = len(self.kept[member_id])
        return count < self.share or (count == self.share and self.rest > 0)

    def give(self, member_id: str, place: Place) -> None:
        self.rest -= len(self.kept[member_id]) == self.share
        self.kept[member_id].append(place)
