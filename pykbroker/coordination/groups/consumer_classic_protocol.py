"""What consumers of the classic protocol write into the opaque bytes of JoinGroup and SyncGroup."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from pykbroker.coordination.groups import subscriptions
from pykbroker_protocol.compiler import MalformedMessage, decode, encode
from pykbroker_protocol.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pykbroker.coordination.assignors.question import Assignment
    from pykbroker.coordination.groups.consumer_topics import TopicsView
    from pykbroker_protocol.message import Message


class UnreadableBytes(Exception):
    """The bytes are not those of a consumer; the group cannot speak for it."""


def version_of(data: bytes) -> int:
    """Newer versions are read as the newest that is known: they only add fields at the end."""
    version = int.from_bytes(data[:2], "big", signed=True)
    if len(data) < 2 or version < 0:
        raise UnreadableBytes("no version")
    return min(version, ConsumerProtocolSubscription.versions.last)


def read_subscription(data: bytes) -> ConsumerProtocolSubscription:
    try:
        return subscriptions.read_subscription(data)
    except (MalformedMessage, struct.error) as error:
        raise UnreadableBytes(str(error)) from error


def read_assignment(data: bytes, topics: TopicsView) -> Assignment:
    """Empty for a member that joined and never fetched its assignment."""
    if not data:
        return {}
    try:
        read = decode(ConsumerProtocolAssignment, version_of(data), data, 2)
    except MalformedMessage as error:
        raise UnreadableBytes(str(error)) from error
    return by_id({it.topic: it.partitions for it in read.assigned_partitions}, topics)


def owned_partitions(subscription: ConsumerProtocolSubscription, topics: TopicsView) -> Assignment:
    return by_id({it.topic: it.partitions for it in subscription.owned_partitions}, topics)


def by_id(partitions: Mapping[str, Sequence[int]], topics: TopicsView) -> Assignment:
    return {
        topic.topic_id: frozenset(partitions[name])
        for name in partitions
        if (topic := topics.topic(name)) is not None
    }


def write_assignment(assignment: Assignment, topics: TopicsView, version: int) -> bytes:
    written = [
        ConsumerProtocolAssignmentTopicPartition(
            topic=topic.name, partitions=sorted(assignment[topic_id])
        )
        for topic_id in assignment
        if (topic := topics.topic_of_id(topic_id)) is not None
    ]
    return with_version(ConsumerProtocolAssignment(assigned_partitions=written), version)


def with_version(message: Message, version: int) -> bytes:
    return version.to_bytes(2, "big") + encode(message, version)
