"""The uniform assignor: shares differ by one partition at most, and little moves.

Where all members subscribe to the same topics, each is due the same number of partitions. Where
they do not, partitions wander from the loaded to the idle as long as that evens them out.
Members keep what they have as far as the balance allows. A partition that has to move goes to a
member in a rack of one of its replicas, if one such has room.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.coordination.assignors.question import (
    NOTHING,
    OPERATIONS_PER_STEP,
    Assignor,
    Place,
)
from pykbroker.coordination.assignors.uniform_mixed import assign_to_mixed_subscribers

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pykbroker.coordination.assignors.question import (
        Assignment,
        Steps,
        Subscriber,
        TopicToAssign,
    )


@Assignor
def assign_uniform(
    subscribers: Sequence[Subscriber], topics: Mapping[bytes, TopicToAssign]
) -> Steps[Mapping[str, Assignment]]:
    in_order = sorted(subscribers, key=lambda subscriber: subscriber.lasting_name)
    wanted = set()
    for topic_ids in {it.topic_ids for it in in_order}:
        wanted.add(topic_ids.intersection(topics))
        yield len(topic_ids)
    if len(wanted) > 1:
        return (yield from assign_to_mixed_subscribers(in_order, topics))
    subscribed = {topic_id: topics[topic_id] for one in wanted for topic_id in one}
    return (yield from assign_to_equal_subscribers(in_order, subscribed))


def assign_to_equal_subscribers(
    subscribers: Sequence[Subscriber], topics: Mapping[bytes, TopicToAssign]
) -> Steps[Mapping[str, Assignment]]:
    """Members whose share stays as it is get the very value that they own.

    A group of many members computes this whenever one leaves, and few shares change: the work for
    each of the others is a few operations on whole sets.
    """
    free = {topic_id: set(range(topic.partition_count)) for topic_id, topic in topics.items()}
    yield len(free)
    held = {}
    for it in subscribers:
        held[it.member_id] = claim(it.owned, free)
        yield 1 + len(it.owned)
    counts = {member_id: sum(map(len, share.values())) for member_id, share in held.items()}
    rooms = Rooms(counts, free_count=sum(map(len, free.values())))
    return held | (yield from even_out(rooms, held, free, Neighbourhood(subscribers, topics)))


def share_with_newcomers(
    counts: dict[str, int], owned: Mapping[str, Assignment]
) -> Steps[Mapping[str, Assignment]]:
    """The shares that change, where equal subscribers own all partitions, each by one of them.

    Gives what `assign_uniform` would; whom nothing is taken from, and nothing given, is not even
    looked at. A newcomer owns nothing and counts 0. Counts come in the order of lasting names.
    """
    return even_out(Rooms(counts, free_count=0), owned, {})


def even_out(
    rooms: Rooms,
    held: Mapping[str, Assignment],
    free: dict[bytes, set[int]],
    neighbourhood: Neighbourhood | None = None,
) -> Steps[dict[str, Assignment]]:
    """Take from those who have too much, and share out what is free: the shares that change."""
    changed: dict[str, Assignment] = {}
    for member_id, count in rooms.cuts():
        changed[member_id] = let_go(held[member_id], count, free)
        yield 2 * rooms.counts[member_id]
    left = in_order(free)
    yield len(left)
    if neighbourhood is not None:
        left = yield from rooms.take_near(left, neighbourhood)
    yield from rooms.take(left)
    for member_id, places in rooms.given.items():
        had = changed.get(member_id) or held.get(member_id, NOTHING)
        changed[member_id] = together(had, places)
        yield 2 * len(had) + len(places)
    return changed


def claim(owned: Assignment, free: dict[bytes, set[int]]) -> Assignment:
    """What a member owns and nobody else has claimed; it is no longer free."""
    claimed: dict[bytes, frozenset[int]] = {}
    for topic_id, partitions in owned.items():
        unclaimed = free.get(topic_id)
        if not unclaimed:
            continue
        mine = partitions if partitions <= unclaimed else partitions & unclaimed
        if mine:
            claimed[topic_id] = mine
            unclaimed -= mine
    return owned if claimed == owned else claimed


def let_go(held: Assignment, count: int, free: dict[bytes, set[int]]) -> Assignment:
    """Keep so many partitions, the lowest numbers of each topic; the others are free again."""
    if len(held) == 1:  # of one topic, as mostly
        [(topic_id, partitions)] = held.items()
        in_turn = sorted(partitions)
        free.setdefault(topic_id, set()).update(in_turn[count:])
        return {topic_id: frozenset(in_turn[:count])} if count else {}
    ranked = sorted(
        (rank, topic_id, partition)
        for topic_id, partitions in held.items()
        for rank, partition in enumerate(sorted(partitions))
    )
    surplus: dict[bytes, set[int]] = {}
    for _, topic_id, partition in ranked[count:]:
        surplus.setdefault(topic_id, set()).add(partition)
        free.setdefault(topic_id, set()).add(partition)
    kept = {topic_id: held[topic_id] - surplus.get(topic_id, set()) for topic_id in held}
    return {topic_id: partitions for topic_id, partitions in kept.items() if partitions}


def in_order(free: Mapping[bytes, set[int]]) -> list[Place]:
    """Topic by topic, in the order of their numbers: neighbours go to different members."""
    return [
        Place(topic_id, number) for topic_id in sorted(free) for number in sorted(free[topic_id])
    ]


def together(held: Assignment, given: Iterable[Place]) -> Assignment:
    numbers = {topic_id: set(partitions) for topic_id, partitions in held.items()}
    for topic_id, partition in given:
        numbers.setdefault(topic_id, set()).add(partition)
    return {topic_id: frozenset(numbers[topic_id]) for topic_id in sorted(numbers)}


class Neighbourhood:
    """Who lives where, as far as that matters to partitions."""

    def __init__(
        self, subscribers: Sequence[Subscriber], topics: Mapping[bytes, TopicToAssign]
    ) -> None:
        self._topics = topics
        self._members_by_rack: dict[str, list[str]] = {}
        if any(topic.racks for topic in topics.values()):
            for it in subscribers:
                if it.rack_id is not None:
                    self._members_by_rack.setdefault(it.rack_id, []).append(it.member_id)

    @property
    def is_empty(self) -> bool:
        return not self._members_by_rack

    def near(self, place: Place) -> Iterator[str]:
        racks = self._topics[place.topic_id].racks
        for rack in racks[place.partition] if racks else ():
            yield from self._members_by_rack.get(rack, ())


class Rooms:
    """How many partitions each member has, and how many it may still be given."""

    def __init__(self, counts: dict[str, int], *, free_count: int) -> None:
        self.counts = counts
        total = free_count + sum(counts.values())
        self.share, self.rest = divmod(total, max(len(counts), 1))
        """The rest are shares that are larger by one, and are still to be had."""
        self.given: dict[str, list[Place]] = {}

    def cuts(self) -> Iterator[tuple[str, int]]:
        """Members that own too much, and how much each of them keeps.

        Who owns most has most to lose: the shares that are larger by one go there first.
        """
        above = [it for it, count in self.counts.items() if count > self.share]
        for member_id in sorted(above, key=self.counts.__getitem__, reverse=True):
            due = self.share + (self.rest > 0)
            self.rest -= due > self.share
            if self.counts[member_id] > due:
                self.counts[member_id] = due
                yield member_id, due

    def take_near(self, free: list[Place], neighbourhood: Neighbourhood) -> Steps[list[Place]]:
        """Hand places to members in one of their racks; gives back those that found none."""
        if neighbourhood.is_empty:
            return free
        left = []
        for place in free:
            takers = [it for it in neighbourhood.near(place) if self.room(it)]
            if takers:
                self.give(min(takers, key=lambda it: (self.counts[it], it)), place)
            else:
                left.append(place)
            yield 1 + 2 * len(takers)
        return left

    def take(self, free: list[Place]) -> Steps[None]:
        """Deal the places out in turn to the members with room, the emptiest first."""
        limit = self.share + (self.rest > 0)
        waiting = [it for it, count in self.counts.items() if count < limit]
        waiting.sort(key=self.counts.__getitem__)
        for turn, place in enumerate(free):
            while not self.room(member_id := waiting[turn % len(waiting)]):
                waiting.pop(turn % len(waiting))
            self.give(member_id, place)
            if not turn % OPERATIONS_PER_STEP:
                yield 3 * OPERATIONS_PER_STEP

    def room(self, member_id: str) -> bool:
        return self.counts[member_id] < self.share + (self.rest > 0)

    def give(self, member_id: str, place: Place) -> None:
        self.rest -= self.counts[member_id] == self.share
        self.counts[member_id] += 1
        self.given.setdefault(member_id, []).append(place)
