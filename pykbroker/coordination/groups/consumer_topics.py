"""The topics of the cluster as seen by consumer groups."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Protocol

from pykbroker.coordination.assignors.assignor import TopicToAssign
from pykbroker_protocol.late_dataclass import dataclass

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from collections.abc import Set as AbstractSet

NO_TOPICS = 0
"""Fingerprint of a subscription without existing topics; not written to records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicView:
    """Id, name, partition count and replica racks of a topic."""

    topic_id: bytes
    name: str
    partition_count: int
    racks: Sequence[frozenset[str]] = ()
    """By partition; empty if racks are unknown."""

    def to_assign(self) -> TopicToAssign:
        return TopicToAssign(partition_count=self.partition_count, racks=self.racks)


class TopicsView(Protocol):
    """All topics at one moment."""

    @property
    def version(self) -> int:
        """Increases when a topic may have changed; equal versions mean equal topics."""

    def topic(self, name: str) -> TopicView | None: ...

    def topic_of_id(self, topic_id: bytes) -> TopicView | None: ...

    def names(self) -> Collection[str]:
        """Returns all names; expressions also match internal topics, as in Apache Kafka."""


def known_topics(
    subscriptions: Iterable[AbstractSet[str]], topics: TopicsView
) -> dict[str, TopicView]:
    """Returns the existing topics of several subscriptions by name, in a stable order.

    Members can subscribe to a million names that do not exist. The cost per subscription is the
    smaller of its names and the topics of the cluster.
    """
    existing = topics.names()
    known = set[str]()
    for names in subscriptions:
        some, others = (names, existing) if len(names) < len(existing) else (existing, names)
        known.update(name for name in some if name in others)
    return {name: topic for name in sorted(known) if (topic := topics.topic(name)) is not None}


def fingerprint(subscriptions: Iterable[AbstractSet[str]], topics: TopicsView) -> int:
    """Changes when a subscribed topic is created, deleted, grows or changes racks.

    The fingerprint is stored in the group's records. Apache Kafka's hash differs: after a change
    of broker each group gets one more assignment.
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
