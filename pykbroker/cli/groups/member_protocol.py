"""What members of a classic group tell each other, as bytes: a version, then what they read."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from pykbroker_protocol.compiler import MalformedMessage, decode, encode
from pykbroker_protocol.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PROTOCOL_TYPE: Final = "consumer"
_VERSION: Final = struct.Struct(">h")

Shares = dict[str, list[int]]
"""Partitions by topic."""


def write_subscription(topics: Sequence[str]) -> bytes:
    """In version 0: who gives up everything before it joins has nothing more to say."""
    return _VERSION.pack(0) + encode(ConsumerProtocolSubscription(topics=topics), 0)


def write_assignment(shares: Mapping[str, Sequence[int]]) -> bytes:
    parts = [
        ConsumerProtocolAssignmentTopicPartition(topic=topic, partitions=partitions)
        for topic, partitions in shares.items()
    ]
    return _VERSION.pack(0) + encode(ConsumerProtocolAssignment(assigned_partitions=parts), 0)


def read_subscription(content: bytes) -> list[str]:
    """The topics that a member reads; newer versions begin like the newest that we know."""
    version = version_of(content, ConsumerProtocolSubscription.versions.last)
    return list(decode(ConsumerProtocolSubscription, version, content, _VERSION.size).topics)


def read_assignment(content: bytes) -> Shares:
    """What a member was given; a member that was given nothing may have no bytes at all."""
    if not content:
        return {}
    version = version_of(content, ConsumerProtocolAssignment.versions.last)
    found = decode(ConsumerProtocolAssignment, version, content, _VERSION.size)
    return {it.topic: sorted(it.partitions) for it in found.assigned_partitions}


def version_of(content: bytes, newest: int) -> int:
    try:
        (version,) = _VERSION.unpack_from(content)
    except struct.error as reason:
        raise MalformedMessage("it ends before it says its version") from reason
    if version < 0:
        raise MalformedMessage(f"there is no version {version}")
    return min(int(version), newest)
