"""DescribeQuorum: returns the voters and observers of the metadata log.

Served versions: 0-2
     0  first version, flexible (KIP-595)
     1  last_fetch_timestamp and last_caught_up_timestamp (KIP-836)
     2  error messages, directory ids and nodes with listeners (KIP-853)
Limits: Voters have no listeners, because controllers have none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker_protocol.api_keys import ApiKey
from pykbroker_protocol.message import (
    ZERO_UUID,
    Message,
    array,
    int16,
    int32,
    int64,
    string,
    uint16,
    uuid,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


class PartitionData(Message):
    partition_index: int = int32("0+")


class TopicData(Message):
    topic_name: str = string("0+")
    partitions: Sequence[PartitionData] = array(PartitionData, "0+")


class DescribeQuorumRequest(Message, api=ApiKey.DESCRIBE_QUORUM, versions="0-2", flexible="0+"):
    topics: Sequence[TopicData] = array(TopicData, "0+")


class ReplicaState(Message):
    replica_id: int = int32("0+")
    replica_directory_id: bytes = uuid("2+", default=ZERO_UUID)
    log_end_offset: int = int64("0+")
    last_fetch_timestamp: int = int64("1+", default=-1, ignorable=True)
    last_caught_up_timestamp: int = int64("1+", default=-1, ignorable=True)


class DescribeQuorumPartitionData(Message):
    partition_index: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("2+", nullable="2+", default="", ignorable=True)
    leader_id: int = int32("0+")
    leader_epoch: int = int32("0+")
    high_watermark: int = int64("0+")
    current_voters: Sequence[ReplicaState] = array(ReplicaState, "0+")
    observers: Sequence[ReplicaState] = array(ReplicaState, "0+")


class DescribeQuorumTopicData(Message):
    topic_name: str = string("0+")
    partitions: Sequence[DescribeQuorumPartitionData] = array(DescribeQuorumPartitionData, "0+")


class Listener(Message):
    name: str = string("2+", default="")
    host: str = string("2+", default="")
    port: int = uint16("2+", default=0)


class Node(Message):
    node_id: int = int32("2+", default=0)
    listeners: Sequence[Listener] = array(Listener, "2+", default=())


class DescribeQuorumResponse(Message, api=ApiKey.DESCRIBE_QUORUM, versions="0-2", flexible="0+"):
    error_code: int = int16("0+")
    error_message: str | None = string("2+", nullable="2+", default="", ignorable=True)
    topics: Sequence[DescribeQuorumTopicData] = array(DescribeQuorumTopicData, "0+")
    nodes: Sequence[Node] = array(Node, "2+", default=())
