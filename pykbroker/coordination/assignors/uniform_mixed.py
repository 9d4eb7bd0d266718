"""The uniform assignor where members subscribe to different topics.

No partition could move to another subscriber of its topic and leave the two more even: that is the
balance it reaches. Each step lowers the sum of the squares of the loads, so it comes to an end.
"""

from __future__ import annotations

from bisect import insort
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pykbroker.coordination.assignors.question import (
        Assignment,
        Steps,
        Subscriber,
        TopicToAssign,
    )


def assign_to_mixed_subscribers(
    subscribers: Sequence[Subscriber], topics: Mapping[bytes, TopicToAssign]
) -> Steps[Mapping[str, Assignment]]:
    scales = Scales(subscribers, topics)
    for subscriber in subscribers:
        scales.take_in(subscriber)
        yield 2 * len(subscriber.topic_ids)
    for topic_id in scales.topics_by_choice():
        yield from scales.settle(topic_id)
    while (yield from even_out(scales)):
        pass  # a move in one topic may make room for a better one in another
    assigned: dict[str, dict[bytes, frozenset[int]]] = {it.member_id: {} for it in subscribers}
    for topic_id in sorted(scales.held):
        for member_id, partitions in scales.held[topic_id].items():
            assigned[member_id][topic_id] = frozenset(partitions)
        yield len(scales.held[topic_id])
    return assigned


def even_out(scales: Scales) -> Steps[bool]:
    """Move partitions of each topic until no move in it helps; tells whether any moved."""
    moved = False
    for topic_id in scales.subscribers_of:
        moved |= yield from scales.even_out(topic_id)
    return moved


class Scales:
    """Who holds which partitions of a topic, and how many each member holds in all."""

    def __init__(
        self, subscribers: Sequence[Subscriber], topics: Mapping[bytes, TopicToAssign]
    ) -> None:
        self.topics = topics
        self.racks = {it.member_id: it.rack_id for it in subscribers}
        self.load = dict.fromkeys(self.racks, 0)
        self.subscribers_of: dict[bytes, list[str]] = {}
        self.held: dict[bytes, dict[str, set[int]]] = {topic_id: {} for topic_id in topics}
        """By topic and member; who holds nothing of a topic is left out."""
        self.free = {topic_id: set(range(it.partition_count)) for topic_id, it in topics.items()}

    def take_in(self, subscriber: Subscriber) -> None:
        for topic_id in sorted(subscriber.topic_ids.intersection(self.topics)):
            self.subscribers_of.setdefault(topic_id, []).append(subscriber.member_id)
        for topic_id in subscriber.topic_ids.intersection(subscriber.owned):
            self.keep(topic_id, subscriber)

    def keep(self, topic_id: bytes, subscriber: Subscriber) -> None:
        """Nobody else has claimed these before."""
        if kept := subscriber.owned[topic_id] & self.free.get(topic_id, set()):
            self.free[topic_id] -= kept
            self.held[topic_id][subscriber.member_id] = set(kept)
            self.load[subscriber.member_id] += len(kept)

    def topics_by_choice(self) -> list[bytes]:
        """Those with the fewest subscribers first: the others can still make up for them."""
        return sorted(self.subscribers_of, key=lambda it: (len(self.subscribers_of[it]), it))

    def settle(self, topic_id: bytes) -> Steps[None]:
        """Give the topic's free partitions to its least loaded subscribers, near ones first."""
        free, members = self.free[topic_id], self.subscribers_of[topic_id]
        yield 1 + len(members)
        if not free:
            return
        rows: dict[int, list[int]] = {}
        for index, member_id in enumerate(members):
            rows.setdefault(self.load[member_id], []).append(index)
        least = min(rows)
        for partition in sorted(free):
            row = rows[least]
            taker = self.near(topic_id, partition, members, row)
            self.give(topic_id, partition, members[taker])
            row.remove(taker)
            insort(rows.setdefault(least + 1, []), taker)
            least += not row
            yield 2 + len(row) // (1 if self.topics[topic_id].racks else 8)

    def near(self, topic_id: bytes, partition: int, members: list[str], row: list[int]) -> int:
        """One of a row of members that is near a partition if any is, else the first."""
        topic = self.topics[topic_id]
        if not topic.racks:
            return row[0]
        return next((it for it in row if topic.is_near(partition, self.racks[members[it]])), row[0])

    def even_out(self, topic_id: bytes) -> Steps[bool]:
        """Move partitions of one topic until no move helps; tells whether any moved."""
        members, held, moved = self.subscribers_of[topic_id], self.held[topic_id], False
        while givers := [it for it in members if it in held]:
            giver = max(givers, key=self.load.__getitem__)
            taker = min(members, key=self.load.__getitem__)
            yield 2 * len(members)
            if self.load[giver] - self.load[taker] < 2:
                break
            self.move(topic_id, giver, taker)
            moved = True
        return moved

    def move(self, topic_id: bytes, giver: str, taker: str) -> None:
        topic, held = self.topics[topic_id], self.held[topic_id][giver]
        near = [it for it in held if topic.is_near(it, self.racks[taker])]
        partition = max(near or held)
        held.remove(partition)
        if not held:
            del self.held[topic_id][giver]
        self.load[giver] -= 1
        self.give(topic_id, partition, taker)

    def give(self, topic_id: bytes, partition: int, taker: str) -> None:
        self.held[topic_id].setdefault(taker, set()).add(partition)
        self.load[taker] += 1
