"""Records of `__consumer_offsets` for consumer groups (KIP-848)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker_protocol.message import (
    INT32,
    STRING,
    Message,
    array,
    int8,
    int32,
    int64,
    nested,
    octets,
    string,
    uuid,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


class ConsumerGroupMetadataKey(Message, record_type=3, versions="0"):
    group_id: str = string("0")


class ConsumerGroupMetadataValue(Message, record_type=3, versions="0", flexible="0+"):
    epoch: int = int32("0+")
    metadata_hash: int = int64("0+", tag=0, default=0)


class ConsumerGroupPartitionMetadataKey(Message, record_type=4, versions="0"):
    group_id: str = string("0")


class PartitionMetadata(Message):
    partition: int = int32("0+")
    racks: Sequence[str] = array(STRING, "0+")


class TopicMetadata(Message):
    topic_id: bytes = uuid("0+")
    topic_name: str = string("0+")
    num_partitions: int = int32("0+")
    partition_metadata: Sequence[PartitionMetadata] = array(PartitionMetadata, "0+")


class ConsumerGroupPartitionMetadataValue(Message, record_type=4, versions="0", flexible="0+"):
    topics: Sequence[TopicMetadata] = array(TopicMetadata, "0+")


class ConsumerGroupMemberMetadataKey(Message, record_type=5, versions="0"):
    group_id: str = string("0")
    member_id: str = string("0")


class ClassicProtocol(Message):
    name: str = string("0+")
    metadata: bytes = octets("0+")


class ClassicMemberMetadata(Message):
    session_timeout_ms: int = int32("0+")
    supported_protocols: Sequence[ClassicProtocol] = array(ClassicProtocol, "0+")


class ConsumerGroupMemberMetadataValue(Message, record_type=5, versions="0", flexible="0+"):
    instance_id: str | None = string("0+", nullable="0+")
    rack_id: str | None = string("0+", nullable="0+")
    client_id: str = string("0+")
    client_host: str = string("0+")
    subscribed_topic_names: Sequence[str] = array(STRING, "0+")
    subscribed_topic_regex: str | None = string("0+", nullable="0+")
    rebalance_timeout_ms: int = int32("0+", default=-1)
    server_assignor: str | None = string("0+", nullable="0+")
    classic_member_metadata: ClassicMemberMetadata | None = nested(
        ClassicMemberMetadata, "0+", nullable="0+", tag=0
    )
    """Null if the member uses the consumer protocol; not the default, so null is written."""


class ConsumerGroupTargetAssignmentMetadataKey(Message, record_type=6, versions="0"):
    group_id: str = string("0")


class ConsumerGroupTargetAssignmentMetadataValue(
    Message, record_type=6, versions="0", flexible="0+"
):
    assignment_epoch: int = int32("0+")
    assignment_timestamp: int = int64("0+", tag=0, default=0, ignorable=True)


class ConsumerGroupTargetAssignmentMemberKey(Message, record_type=7, versions="0"):
    group_id: str = string("0")
    member_id: str = string("0")


class TopicPartition(Message):
    topic_id: bytes = uuid("0+")
    partitions: Sequence[int] = array(INT32, "0+")


class ConsumerGroupTargetAssignmentMemberValue(Message, record_type=7, versions="0", flexible="0+"):
    topic_partitions: Sequence[TopicPartition] = array(TopicPartition, "0+")


class ConsumerGroupCurrentMemberAssignmentKey(Message, record_type=8, versions="0"):
    group_id: str = string("0")
    member_id: str = string("0")


class TopicPartitions(Message):
    topic_id: bytes = uuid("0+")
    partitions: Sequence[int] = array(INT32, "0+")
    assignment_epochs: Sequence[int] | None = array(INT32, "0+", nullable="0+", tag=0, default=())


class ConsumerGroupCurrentMemberAssignmentValue(
    Message, record_type=8, versions="0", flexible="0+"
):
    member_epoch: int = int32("0+")
    previous_member_epoch: int = int32("0+")
    state: int = int8("0+")
    assigned_partitions: Sequence[TopicPartitions] = array(TopicPartitions, "0+")
    partitions_pending_revocation: Sequence[TopicPartitions] = array(TopicPartitions, "0+")


class ConsumerGroupRegularExpressionKey(Message, record_type=16, versions="0"):
    group_id: str = string("0")
    regular_expression: str = string("0")


class ConsumerGroupRegularExpressionValue(Message, record_type=16, versions="0", flexible="0+"):
    topics: Sequence[str] = array(STRING, "0+")
    version: int = int64("0+")
    timestamp: int = int64("0+")
