"""The uniform assignor: balanced within one partition, with as few moves as possible.

If all members subscribe to the same topics, all shares differ by at most one. Otherwise partitions
move from loaded to less loaded members while that improves the balance. Members keep their
partitions as far as the balance allows. A partition that moves goes to a member in a rack of one of
its replicas, if such a member has capacity.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.coordination.assignors.assignor import (
    NOTHING,
    OPERATIONS_PER_STEP,
    Assignor,
    TopicIdPartition,
)
from pykbroker.coordination.assignors.uniform_mixed import assign_to_mixed_subscribers

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pykbroker.coordination.assignors.assignor import (
        Assignment,
        Steps,
        Subscriber,
        TopicToAssign,
    )


@Assignor
def assign_uniform(
    subscribers: Sequence[Subscriber], topics: Mapping[bytes, TopicToAssign]
) -> Steps[Mapping[str, Assignment]]:
    in_order = sorted(subscribers, key=lambda subscriber: subscriber.stable_id)
    subscriptions = set()
    for topic_ids in {it.topic_ids for it in in_order}:
        subscriptions.add(topic_ids.intersection(topics))
        yield len(topic_ids)
    if len(subscriptions) > 1:
        return (yield from assign_to_mixed_subscribers(in_order, topics))
    subscribed = {topic_id: topics[topic_id] for one in subscriptions for topic_id in one}
    return (yield from assign_to_equal_subscribers(in_order, subscribed))


def assign_to_equal_subscribers(
    subscribers: Sequence[Subscriber], topics: Mapping[bytes, TopicToAssign]
) -> Steps[Mapping[str, Assignment]]:
    """Assigns topics to members with equal subscriptions; unchanged shares keep their value.

    A large group computes this after each leave, when few shares change: other members cost a few
    operations on whole sets.
    """
    free = {topic_id: set(range(topic.partition_count)) for topic_id, topic in topics.items()}
    yield len(free)
    held = {}
    for it in subscribers:
        held[it.member_id] = claim(it.owned, free)
        yield 1 + len(it.owned)
    counts = {member_id: sum(map(len, share.values())) for member_id, share in held.items()}
    capacities = Capacities(counts, free_count=sum(map(len, free.values())))
    return held | (yield from even_out(capacities, held, free, RackIndex(subscribers, topics)))


def assign_to_new_members(
    counts: dict[str, int], owned: Mapping[str, Assignment]
) -> Steps[Mapping[str, Assignment]]:
    """Returns the changed shares if equal subscribers own each partition exactly once.

    The result is that of `assign_uniform`, without touching unchanged members. New members own
    nothing and have count 0. `counts` is in the order of stable ids.
    """
    return even_out(Capacities(counts, free_count=0), owned, {})


def even_out(
    capacities: Capacities,
    held: Mapping[str, Assignment],
    free: dict[bytes, set[int]],
    rack_index: RackIndex | None = None,
) -> Steps[dict[str, Assignment]]:
    """Takes surplus partitions, assigns the free ones and returns the changed shares."""
    changed: dict[str, Assignment] = {}
    for member_id, count in capacities.surplus():
        changed[member_id] = release(held[member_id], count, free)
        yield 2 * capacities.counts[member_id]
    left = in_order(free)
    yield len(left)
    if rack_index is not None:
        left = yield from capacities.assign_near(left, rack_index)
    yield from capacities.assign_in_turn(left)
    for member_id, partitions in capacities.given.items():
        had = changed.get(member_id) or held.get(member_id, NOTHING)
        changed[member_id] = merged(had, partitions)
        yield 2 * len(had) + len(partitions)
    return changed


def claim(owned: Assignment, free: dict[bytes, set[int]]) -> Assignment:
    """Removes a member's partitions from the free ones; returns those not claimed before."""
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


def release(held: Assignment, count: int, free: dict[bytes, set[int]]) -> Assignment:
    """Keeps `count` partitions, the lowest of each topic, and frees the others."""
    if len(held) == 1:  # the most common case
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


def in_order(free: Mapping[bytes, set[int]]) -> list[TopicIdPartition]:
    """Orders partitions by topic and number, so that neighbours go to different members."""
    return [
        TopicIdPartition(topic_id, number)
        for topic_id in sorted(free)
        for number in sorted(free[topic_id])
    ]


def merged(held: Assignment, given: Iterable[TopicIdPartition]) -> Assignment:
    numbers = {topic_id: set(partitions) for topic_id, partitions in held.items()}
    for topic_id, partition in given:
        numbers.setdefault(topic_id, set()).add(partition)
    return {topic_id: frozenset(numbers[topic_id]) for topic_id in sorted(numbers)}


class RackIndex:
    """Members by rack, for racks of replicas."""

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

    def members_near(self, partition: TopicIdPartition) -> Iterator[str]:
        racks = self._topics[partition.topic_id].racks
        for rack in racks[partition.partition] if racks else ():
            yield from self._members_by_rack.get(rack, ())


class Capacities:
    """Partition count of each member and how many more it may get."""

    def __init__(self, counts: dict[str, int], *, free_count: int) -> None:
        self.counts = counts
        total = free_count + sum(counts.values())
        self.share, self.rest = divmod(total, max(len(counts), 1))
        """Number of shares that are larger by one and not assigned yet."""
        self.given: dict[str, list[TopicIdPartition]] = {}

    def surplus(self) -> Iterator[tuple[str, int]]:
        """Yields members with too many partitions and the number that each keeps.

        The members with most partitions get the larger shares, so that they lose fewer.
        """
        above = [it for it, count in self.counts.items() if count > self.share]
        for member_id in sorted(above, key=self.counts.__getitem__, reverse=True):
            due = self.share + (self.rest > 0)
            self.rest -= due > self.share
            if self.counts[member_id] > due:
                self.counts[member_id] = due
                yield member_id, due

    def assign_near(
        self, free: list[TopicIdPartition], rack_index: RackIndex
    ) -> Steps[list[TopicIdPartition]]:
        """Assigns partitions to members in their racks; returns those without such a member."""
        if rack_index.is_empty:
            return free
        left = []
        for partition in free:
            receivers = [it for it in rack_index.members_near(partition) if self.has_capacity(it)]
            if receivers:
                self.give(min(receivers, key=lambda it: (self.counts[it], it)), partition)
            else:
                left.append(partition)
            yield 1 + 2 * len(receivers)
        return left

    def assign_in_turn(self, free: list[TopicIdPartition]) -> Steps[None]:
        """Assigns partitions in turn to members with capacity, starting with the least loaded."""
        limit = self.share + (self.rest > 0)
        waiting = [it for it, count in self.counts.items() if count < limit]
        waiting.sort(key=self.counts.__getitem__)
        for turn, partition in enumerate(free):
            while not self.has_capacity(member_id := waiting[turn % len(waiting)]):
                waiting.pop(turn % len(waiting))
            self.give(member_id, partition)
            if not turn % OPERATIONS_PER_STEP:
                yield 3 * OPERATIONS_PER_STEP

    def has_capacity(self, member_id: str) -> bool:
        return self.counts[member_id] < self.share + (self.rest > 0)

    def give(self, member_id: str, partition: TopicIdPartition) -> None:
        self.rest -= self.counts[member_id] == self.share
        self.counts[member_id] += 1
        self.given.setdefault(member_id, []).append(partition)
