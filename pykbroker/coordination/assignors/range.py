"""The range assignor: each member gets one run of partitions, the same run in equal topics.

Topics with the same subscribers and the same number of partitions are co-partitioned: the owner of
partition 3 of one topic owns partition 3 of the others. Members keep the order of their previous
runs and new members follow, so that a join or leave shifts runs instead of shuffling them. Among
new members, a run goes to the member whose rack has most of its replicas.
"""

from __future__ import annotations

import math
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from pykbroker.coordination.assignors.assignor import Assignor

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pykbroker.coordination.assignors.assignor import (
        Assignment,
        Steps,
        Subscriber,
        TopicToAssign,
    )


@Assignor
def assign_range(
    subscribers: Sequence[Subscriber], topics: Mapping[bytes, TopicToAssign]
) -> Steps[Mapping[str, Assignment]]:
    assigned: dict[str, dict[bytes, frozenset[int]]] = {it.member_id: {} for it in subscribers}
    for topic_ids, members in (yield from group_by_subscribers(subscribers, topics)):
        order = yield from in_previous_order(members, topic_ids, topics)
        shares = {
            count: [frozenset(run) for run in runs(count, len(order))]
            for count in {topics[it].partition_count for it in topic_ids}
        }
        yield sum(len(order) + count for count in shares)
        for topic_id in topic_ids:
            for member, share in zip(order, shares[topics[topic_id].partition_count], strict=True):
                if share:
                    assigned[member.member_id][topic_id] = share
            yield len(order)
    return assigned


def group_by_subscribers(
    subscribers: Sequence[Subscriber], topics: Mapping[bytes, TopicToAssign]
) -> Steps[list[tuple[list[bytes], list[Subscriber]]]]:
    """Groups topics with the same subscribers; returns each group with its subscribers."""
    members_of: dict[bytes, list[Subscriber]] = {}
    for subscriber in sorted(subscribers, key=lambda it: it.stable_id):
        for topic_id in subscriber.topic_ids & topics.keys():
            members_of.setdefault(topic_id, []).append(subscriber)
        yield 1 + min(len(subscriber.topic_ids), len(topics))
    merged: dict[tuple[str, ...], list[bytes]] = {}
    for topic_id in sorted(members_of):
        names = tuple(it.member_id for it in members_of[topic_id])
        merged.setdefault(names, []).append(topic_id)
        yield len(names)
    return [(topic_ids, members_of[topic_ids[0]]) for topic_ids in merged.values()]


def in_previous_order(
    members: list[Subscriber], topic_ids: list[bytes], topics: Mapping[bytes, TopicToAssign]
) -> Steps[list[Subscriber]]:
    """Sorts members by their first previous partition in these topics; new members come last."""
    firsts = {}
    for it in members:
        firsts[it.member_id] = first_partition(it, topic_ids)
        yield 1 + (len(topic_ids) if it.owned else 0)
    order = sorted(members, key=lambda it: firsts[it.member_id])
    new_members = [it for it in order if firsts[it.member_id] == math.inf]
    standing = order[: len(order) - len(new_members)]
    placed = yield from ordered_by_rack(new_members, topics[topic_ids[0]], len(order))
    return standing + placed


def first_partition(member: Subscriber, topic_ids: list[bytes]) -> float:
    owned = member.owned
    if not owned:
        return math.inf
    return min((min(owned[it]) for it in topic_ids if owned.get(it)), default=math.inf)


def runs(partition_count: int, count: int) -> Iterator[range]:
    """Yields one run per member; the first runs are longer by one if the division has a rest."""
    length, rest = divmod(partition_count, count)
    start = 0
    for index in range(count):
        stop = start + length + (index < rest)
        yield range(start, stop)
        start = stop


def ordered_by_rack(
    new_members: list[Subscriber], topic: TopicToAssign, member_count: int
) -> Steps[list[Subscriber]]:
    """Orders the new members so that each remaining run goes to the nearest by rack."""
    if not topic.racks or all(it.rack_id is None for it in new_members):
        return new_members
    waiting, placed = list(new_members), []
    first_left = member_count - len(new_members)
    for run in islice(runs(topic.partition_count, member_count), first_left, None):
        nearest = max(waiting, key=partial(nearness, topic, run))
        yield len(waiting) * len(run)
        waiting.remove(nearest)
        placed.append(nearest)
    return placed


def nearness(topic: TopicToAssign, run: range, member: Subscriber) -> int:
    return sum(topic.is_near(partition, member.rack_id) for partition in run)
