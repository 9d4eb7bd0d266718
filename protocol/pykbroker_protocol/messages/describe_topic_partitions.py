"""DescribeTopicPartitions: returns the partitions of topics in pages.

Served versions: 0
     0  first version, flexible (KIP-966)
Limits: Feature eligible.leader.replicas.version is not supported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker_protocol.api_keys import ApiKey
from pykbroker_protocol.message import (
    INT32,
    Message,
    array,
    boolean,
    int16,
    int32,
    nested,
    string,
    uuid,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


class TopicRequest(Message):
    name: str = string("0+")


class Cursor(Message):
    topic_name: str = string("0+")
    partition_index: int = int32("0+")


class DescribeTopicPartitionsRequest(
    Message, api=ApiKey.DESCRIBE_TOPIC_PARTITIONS, versions="0", flexible="0+"
):
    topics: Sequence[TopicRequest] = array(TopicRequest, "0+")
    response_partition_limit: int = int32("0+", default=2000)
    cursor: Cursor | None = nested(Cursor, "0+", nullable="0+", default=None)


class DescribeTopicPartitionsResponsePartition(Message):
    error_code: int = int16("0+")
    partition_index: int = int32("0+")
    leader_id: int = int32("0+")
    leader_epoch: int = int32("0+", default=-1, ignorable=True)
    replica_nodes: Sequence[int] = array(INT32, "0+")
    isr_nodes: Sequence[int] = array(INT32, "0+")
    eligible_leader_replicas: Sequence[int] | None = array(INT32, "0+", nullable="0+", default=None)
    last_known_elr: Sequence[int] | None = array(INT32, "0+", nullable="0+", default=None)
    offline_replicas: Sequence[int] = array(INT32, "0+", ignorable=True)


class DescribeTopicPartitionsResponseTopic(Message):
    error_code: int = int16("0+")
    name: str | None = string("0+", nullable="0+")
    topic_id: bytes = uuid("0+", ignorable=True)
    is_internal: bool = boolean("0+", default=False, ignorable=True)
    partitions: Sequence[DescribeTopicPartitionsResponsePartition] = array(
        DescribeTopicPartitionsResponsePartition, "0+"
    )
    topic_authorized_operations: int = int32("0+", default=-0x80000000)


class DescribeTopicPartitionsResponse(
    Message, api=ApiKey.DESCRIBE_TOPIC_PARTITIONS, versions="0", flexible="0+"
):
    throttle_time_ms: int = int32("0+", default=0, ignorable=True)
    topics: Sequence[DescribeTopicPartitionsResponseTopic] = array(
        DescribeTopicPartitionsResponseTopic, "0+"
    )
    next_cursor: Cursor | None = nested(Cursor, "0+", nullable="0+", default=None)
