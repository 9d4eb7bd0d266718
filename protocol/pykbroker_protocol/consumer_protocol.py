"""ConsumerProtocol: subscription and assignment of members of a classic consumer group.

Each is encoded as a version (int16) followed by the message. The broker decodes them to describe
groups and to convert groups between the classic and the consumer protocol (KIP-848).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

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
    from collections.abc import Sequence


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
