"""Cached metadata of a cluster: brokers by node id, topics with their partition leaders.

A broker can answer Metadata from an older image than another. For each partition the cache keeps
the answer with the newest leader epoch (KIP-320).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pykbroker.address import Address

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pykbroker_protocol.messages.metadata import (
        MetadataResponse,
        MetadataResponsePartition,
        MetadataResponseTopic,
    )

NO_EPOCH: Final = -1


class MetadataCache:
    """Holds topics that were requested; topics with an error are removed."""

    def __init__(self) -> None:
        self.brokers: Mapping[int, Address] = {}
        self._topics: dict[str, MetadataResponseTopic] = {}

    def update(self, response: MetadataResponse, *, is_complete: bool) -> None:
        """Takes over a response; a complete one lists all topics of the cluster."""
        self.brokers = {it.node_id: Address(it.host, it.port) for it in response.brokers}
        known = self._topics
        if is_complete:
            self._topics = {}
        for topic in response.topics:
            if topic.name is None:
                continue
            if topic.error_code:
                self._topics.pop(topic.name, None)
            else:
                self._topics[topic.name] = newest(known.get(topic.name), topic)

    def topic(self, name: str) -> MetadataResponseTopic | None:
        """Returns a topic with its partitions in order."""
        return self._topics.get(name)


def newest(
    known: MetadataResponseTopic | None, received: MetadataResponseTopic
) -> MetadataResponseTopic:
    """Returns the received topic, its partitions in order and none with an older leader epoch."""
    older: dict[int, MetadataResponsePartition] = {}
    if known is not None and known.topic_id == received.topic_id:
        older = {it.partition_index: it for it in known.partitions}
    partitions = [
        newer(older.get(it.partition_index), it)
        for it in sorted(received.partitions, key=lambda it: it.partition_index)
    ]
    return received.replace(partitions=partitions)


def newer(
    known: MetadataResponsePartition | None, received: MetadataResponsePartition
) -> MetadataResponsePartition:
    if known is None or received.leader_epoch == NO_EPOCH:
        return received
    return received if received.leader_epoch >= known.leader_epoch else known
