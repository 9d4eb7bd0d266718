"""ConsumerProtocol: subscription and assignment of members of a classic consumer group.

Each is encoded as a version (int16) followed by the message. The broker decodes them to describe
groups and to convert groups between the classic and the consumer protocol (KIP-848).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from pykbroker_protocol.compiler import MalformedMessage, decode, encode
from pykbroker_protocol.message import (
    INT32,
    STRING,
    Message,
    array,
    int32,
    octets,
    string,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pykbroker_protocol.compiler import Buffer


class TopicPartition(Message):
    topic: str = string("1+", default="")
    partitions: Sequence[int] = array(INT32, "1+", default=())


class ConsumerProtocolSubscription(Message, versions="0-3"):
    topics: Sequence[str] = array(STRING, "0+")
    user_data: bytes | None = octets("0+", nullable="0+", default=None)
    owned_partitions: Sequence[TopicPartition] = array(
        TopicPartition, "1+", default=(), ignorable=True
    )
    generation_id: int = int32("2+", default=-1, ignorable=True)
    rack_id: str | None = string("3+", nullable="3+", default=None, ignorable=True)


class ConsumerProtocolAssignmentTopicPartition(Message):
    topic: str = string("0+")
    partitions: Sequence[int] = array(INT32, "0+")


class ConsumerProtocolAssignment(Message, versions="0-3"):
    assigned_partitions: Sequence[ConsumerProtocolAssignmentTopicPartition] = array(
        ConsumerProtocolAssignmentTopicPartition, "0+"
    )
    user_data: bytes | None = octets("0+", nullable="0+", default=None)


CONSUMER_PROTOCOL_TYPE: Final = "consumer"
"""`protocol_type` of the groups whose members use these messages."""

VERSION_BYTES: Final = 2

PartitionsByTopic: TypeAlias = dict[str, list[int]]


def encode_versioned(
    message: ConsumerProtocolSubscription | ConsumerProtocolAssignment, version: int
) -> bytes:
    return version.to_bytes(VERSION_BYTES, "big") + encode(message, version)


def encode_topics(topics: Sequence[str], version: int) -> bytes:
    """Encodes a subscription to topics, without owned partitions."""
    return encode_versioned(ConsumerProtocolSubscription(topics=topics), version)


def encode_assignment(partitions: Mapping[str, Sequence[int]], version: int) -> bytes:
    assigned = [
        ConsumerProtocolAssignmentTopicPartition(topic=topic, partitions=partitions[topic])
        for topic in partitions
    ]
    return encode_versioned(ConsumerProtocolAssignment(assigned_partitions=assigned), version)


def read_subscription(data: Buffer) -> ConsumerProtocolSubscription:
    """Raises MalformedMessage; versions after the newest known are read as that one."""
    version = read_version(data, ConsumerProtocolSubscription)
    return decode(ConsumerProtocolSubscription, version, data, VERSION_BYTES)


def read_assignment(data: Buffer) -> PartitionsByTopic:
    """Returns sorted partitions; none for empty data, which a member without assignment gets."""
    if not data:
        return {}
    version = read_version(data, ConsumerProtocolAssignment)
    assignment = decode(ConsumerProtocolAssignment, version, data, VERSION_BYTES)
    return {it.topic: sorted(it.partitions) for it in assignment.assigned_partitions}


def read_version(data: Buffer, message: type[Message]) -> int:
    """Returns the version to decode with: newer versions only add fields at the end."""
    if len(data) < VERSION_BYTES:
        raise MalformedMessage("data ends before the version")
    version = int.from_bytes(data[:VERSION_BYTES], "big", signed=True)
    if version < 0:
        raise MalformedMessage(f"version {version} is negative")
    return min(version, message.versions.last)
