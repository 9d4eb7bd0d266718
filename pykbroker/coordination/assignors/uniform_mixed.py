"""The uniform assignor where members subscribe to different topics.

No partition could move to another subscriber of its topic and leave the two more even: that is the
balance it reaches. Each step lowers the sum of the squares of the loads, so it comes to an end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.coordination.assignors.question import Place, gather

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pykbroker.coordination.assignors.question import Assignment, Subscriber, TopicToAssign


def assign_to_mixed_subscribers(
    subscribers: Sequence[Subscriber], topics: Mapping[bytes, TopicToAssign]
) -> Mapping[str, Assignment]:
    scales = Scales(subscribers, topics)
    for topic_id in scales.topics_by_choice():
        scales.settle(topic_id)
    while sum(map(scales.even_out, scales.subscribers_of)):
        pass  # a move in one topic may make room for a better one in another
    places: dict[str, list[Place]] = {it.member_id: [] for it in subscribers}
    for (topic_id, member_id), partitions in scales.held.items():
        places[member_id].extend(Place(topic_id, partition) for partition in partitions)
    return gather(places)


class Scales:
    """Who holds which partitions of a topic, and how many each member holds in all."""

    def __init__(
        self, subscribers: Sequence[Subscriber], topics: Mapping[bytes, TopicToAssign]
    ) -> None:
        self.topics = topics
        self.racks = {it.member_id: it.rack_id for it in subscribers}
        self.load = dict.fromkeys(self.racks, 0)
        self.subscribers_of: dict[bytes, list[str]] = {}
        self.held: dict[tuple[bytes, str], set[int]] = {}
        self.free = {topic_id: set(range(it.partition_count)) for topic_id, it in topics.items()}
        for subscriber in subscribers:
            for topic_id in sorted(subscriber.topic_ids & topics.keys()):
                self.subscribers_of.setdefault(topic_id, []).append(subscriber.member_id)
                self.keep(topic_id, subscriber)

    def keep(self, topic_id: bytes, subscriber: Subscriber) -> None:
        """Nobody else has claimed these before."""
        kept = set(subscriber.owned.get(topic_id, ())) & self.free[topic_id]
        self.free[topic_id] -= kept
        self.held[topic_id, subscriber.member_id] = kept
        self.load[subscriber.member_id] += len(kept)

    def topics_by_choice(self) -> list[bytes]:
        """Those with the fewest subscribers first: the others can still make up for them."""
        return sorted(self.subscribers_of, key=lambda it: (len(self.subscribers_of[it]), it))

    def settle(self, topic_id: bytes) -> None:
        """Give the topic's free partitions to its least loaded subscribers, near ones first."""
        members = self.subscribers_of[topic_id]
        for partition in sorted(self.free[topic_id]):
            taker = min(
                members, key=lambda it: (self.load[it], self.is_far(topic_id, partition, it))
            )
            self.held[topic_id, taker].add(partition)
            self.load[taker] += 1

    def is_far(self, topic_id: bytes, partition: int, member_id: str) -> bool:
        return not self.topics[topic_id].is_near(partition, self.racks[member_id])

    def even_out(self, topic_id: bytes) -> bool:
        """Move partitions of one topic until no move helps; tells whether any moved."""
        members, moved = self.subscribers_of[topic_id], False
        while True:
            givers = [it for it in members if self.held[topic_id, it]]
            if not givers:
                return moved
            giver = max(givers, key=self.load.__getitem__)
            taker = min(members, key=self.load.__getitem__)
            if self.load[giver] - self.load[taker] < 2:
                return moved
            self.move(topic_id, giver, taker)
            moved = True

    def move(self, topic_id: bytes, giver: str, taker: str) -> None:
        held = self.held[topic_id, giver]
        near = [it for it in held if not self.is_far(topic_id, it, taker)]
        partition = max(near or held)
        held.remove(partition)
        self.held[topic_id, taker].add(partition)
        self.load[giver] -= 1
        self.load[taker] += 1
