"""Converts ConsumerProtocol messages between topic names and assignments by topic id."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker_protocol import consumer_protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pykbroker.coordination.assignors.assignor import Assignment
    from pykbroker.coordination.groups.consumer_topics import TopicsView
    from pykbroker_protocol.consumer_protocol import ConsumerProtocolSubscription


def read_assignment(data: bytes, topics: TopicsView) -> Assignment:
    """Returns no partitions for a member that joined and never fetched its assignment."""
    return by_id(consumer_protocol.read_assignment(data), topics)


def owned_partitions(subscription: ConsumerProtocolSubscription, topics: TopicsView) -> Assignment:
    return by_id({it.topic: it.partitions for it in subscription.owned_partitions}, topics)


def by_id(partitions: Mapping[str, Sequence[int]], topics: TopicsView) -> Assignment:
    return {
        topic.topic_id: frozenset(partitions[name])
        for name in partitions
        if (topic := topics.topic(name)) is not None
    }


def write_assignment(assignment: Assignment, topics: TopicsView, version: int) -> bytes:
    partitions = {
        topic.name: sorted(assignment[topic_id])
        for topic_id in assignment
        if (topic := topics.topic_of_id(topic_id)) is not None
    }
    return consumer_protocol.encode_assignment(partitions, version)
