"""The uniform assignor for members with different subscriptions.

The result is balanced in this sense: no partition can move to another subscriber of its topic and
improve the balance of both. Each step lowers the sum of squared loads, so the algorithm terminates.
"""

from __future__ import annotations

from bisect import insort
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pykbroker.coordination.assignors.assignor import (
        Assignment,
        Steps,
        Subscriber,
        TopicToAssign,
    )


def assign_to_mixed_subscribers(
    subscribers: Sequence[Subscriber], topics: Mapping[bytes, TopicToAssign]
) -> Steps[Mapping[str, Assignment]]:
    balance = Balance(subscribers, topics)
    for subscriber in subscribers:
        balance.add_subscriber(subscriber)
        yield 2 * len(subscriber.topic_ids)
    for topic_id in balance.topics_by_subscriber_count():
        yield from balance.assign_free(topic_id)
    while (yield from even_out(balance)):
        pass  # a move in one topic can enable a better move in another
    assigned: dict[str, dict[bytes, frozenset[int]]] = {it.member_id: {} for it in subscribers}
    for topic_id in sorted(balance.held):
        for member_id, partitions in balance.held[topic_id].items():
            assigned[member_id][topic_id] = frozenset(partitions)
        yield len(balance.held[topic_id])
    return assigned


def even_out(balance: Balance) -> Steps[bool]:
    """Moves partitions of each topic until no move helps; returns whether any moved."""
    moved = False
    for topic_id in balance.subscribers_of:
        moved |= yield from balance.even_out(topic_id)
    return moved


class Balance:
    """Partitions of each member by topic, and the total load of each member."""

    def __init__(
        self, subscribers: Sequence[Subscriber], topics: Mapping[bytes, TopicToAssign]
    ) -> None:
        self.topics = topics
        self.racks = {it.member_id: it.rack_id for it in subscribers}
        self.load = dict.fromkeys(self.racks, 0)
        self.subscribers_of: dict[bytes, list[str]] = {}
        self.held: dict[bytes, dict[str, set[int]]] = {topic_id: {} for topic_id in topics}
        """By topic and member; members without partitions of a topic are omitted."""
        self.free = {topic_id: set(range(it.partition_count)) for topic_id, it in topics.items()}

    def add_subscriber(self, subscriber: Subscriber) -> None:
        for topic_id in sorted(subscriber.topic_ids.intersection(self.topics)):
            self.subscribers_of.setdefault(topic_id, []).append(subscriber.member_id)
        for topic_id in subscriber.topic_ids.intersection(subscriber.owned):
            self.keep(topic_id, subscriber)

    def keep(self, topic_id: bytes, subscriber: Subscriber) -> None:
        """Keeps previous partitions that no other member has claimed."""
        if kept := subscriber.owned[topic_id] & self.free.get(topic_id, set()):
            self.free[topic_id] -= kept
            self.held[topic_id][subscriber.member_id] = set(kept)
            self.load[subscriber.member_id] += len(kept)

    def topics_by_subscriber_count(self) -> list[bytes]:
        """Returns topics with the fewest subscribers first; later topics balance the loads."""
        return sorted(self.subscribers_of, key=lambda it: (len(self.subscribers_of[it]), it))

    def assign_free(self, topic_id: bytes) -> Steps[None]:
        """Assigns the free partitions of a topic to its least loaded members, near ones first."""
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
            receiver = self.near(topic_id, partition, members, row)
            self.give(topic_id, partition, members[receiver])
            row.remove(receiver)
            insort(rows.setdefault(least + 1, []), receiver)
            least += not row
            yield 2 + len(row) // (1 if self.topics[topic_id].racks else 8)

    def near(self, topic_id: bytes, partition: int, members: list[str], row: list[int]) -> int:
        """Returns the first member of a row whose rack has the partition, else the first member."""
        topic = self.topics[topic_id]
        if not topic.racks:
            return row[0]
        return next((it for it in row if topic.is_near(partition, self.racks[members[it]])), row[0])

    def even_out(self, topic_id: bytes) -> Steps[bool]:
        """Moves partitions of one topic until no move helps; returns whether any moved."""
        members, held, moved = self.subscribers_of[topic_id], self.held[topic_id], False
        while donors := [it for it in members if it in held]:
            donor = max(donors, key=self.load.__getitem__)
            receiver = min(members, key=self.load.__getitem__)
            yield 2 * len(members)
            if self.load[donor] - self.load[receiver] < 2:
                break
            self.move(topic_id, donor, receiver)
            moved = True
        return moved

    def move(self, topic_id: bytes, donor: str, receiver: str) -> None:
        topic, held = self.topics[topic_id], self.held[topic_id][donor]
        near = [it for it in held if topic.is_near(it, self.racks[receiver])]
        partition = max(near or held)
        held.remove(partition)
        if not held:
            del self.held[topic_id][donor]
        self.load[donor] -= 1
        self.give(topic_id, partition, receiver)

    def give(self, topic_id: bytes, partition: int, receiver: str) -> None:
        self.held[topic_id].setdefault(receiver, set()).add(partition)
        self.load[receiver] += 1
