"""What a group may know of the cluster's topics."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Protocol

from pykbroker.coordination.assignors.assignor import TopicToAssign
from pykbroker_protocol.late_dataclass import dataclass

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from collections.abc import Set as AbstractSet

NO_TOPICS = 0
"""The fingerprint of a subscription that reaches no topic; it is left out of the records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicView:
    """One topic: who it is, how many partitions it has, in which racks each has replicas."""

    topic_id: bytes
    name: str
    partition_count: int
    racks: Sequence[frozenset[str]] = ()
    """By partition; empty where racks are not known."""

    def to_assign(self) -> TopicToAssign:
        return TopicToAssign(partition_count=self.partition_count, racks=self.racks)


class TopicsView(Protocol):
    """All topics at one moment."""

    @property
    def version(self) -> int:
        """Grows whenever a topic may have changed; equal versions mean equal topics."""

    def topic(self, name: str) -> TopicView | None: ...

    def topic_of_id(self, topic_id: bytes) -> TopicView | None: ...

    def names(self) -> Collection[str]:
        """Of all topics; regular expressions match internal topics, too, as in Apache Kafka."""


def known_topics(
    subscriptions: Iterable[AbstractSet[str]], topics: TopicsView
) -> dict[str, TopicView]:
    """The existing topics of several subscriptions, by name and in its order.

    Members may subscribe to a million names that do not exist: a subscription costs as much as it
    has names, or as the cluster has topics, whichever is less.
    """
    existing = topics.names()
    known = set[str]()
    for names in subscriptions:
        some, others = (names, existing) if len(names) < len(existing) else (existing, names)
        known.update(name for name in some if name in others)
    return {name: topic for name in sorted(known) if (topic := topics.topic(name)) is not None}


def fingerprint(subscriptions: Iterable[AbstractSet[str]], topics: TopicsView) -> int:
    """Changes when a topic of a subscription appears, goes, grows or moves between racks.

    It outlives restarts in the group's records. Apache Kafka computes another hash of the same
    facts; a log that changes hands costs each group one more assignment.
    """
    known = known_topics(subscriptions, topics)
    if not known:
        return NO_TOPICS
    digest = hashlib.blake2b(digest_size=8)
    for topic in known.values():
        racks = ";".join(",".join(sorted(racks)) for racks in topic.racks)
        facts = f"{topic.topic_id.hex()} {topic.name} {topic.partition_count} {racks}\n"
        digest.update(facts.encode())
    return int.from_bytes(digest.digest(), "big", signed=True)
