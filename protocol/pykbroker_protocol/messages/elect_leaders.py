"""ElectLeaders: elects preferred replicas, or unclean leaders, for partitions.

Served versions: 0-2
     0  first version (KIP-183)
     1  election types and an error code of the request (KIP-460)
     2  flexible
Limits: timeout_ms is ignored; the request completes without waiting.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker_protocol.api_keys import ApiKey
from pykbroker_protocol.message import (
    INT32,
    Message,
    array,
    int8,
    int16,
    int32,
    string,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


class TopicPartitions(Message):
    topic: str = string("0+")
    partitions: Sequence[int] = array(INT32, "0+")


class ElectLeadersRequest(Message, api=ApiKey.ELECT_LEADERS, versions="0-2", flexible="2+"):
    election_type: int = int8("1+", default=0)
    topic_partitions: Sequence[TopicPartitions] | None = array(TopicPartitions, "0+", nullable="0+")
    timeout_ms: int = int32("0+", default=60000)


class PartitionResult(Message):
    partition_id: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default="")


class ReplicaElectionResult(Message):
    topic: str = string("0+")
    partition_result: Sequence[PartitionResult] = array(PartitionResult, "0+")


class ElectLeadersResponse(Message, api=ApiKey.ELECT_LEADERS, versions="0-2", flexible="2+"):
    throttle_time_ms: int = int32("0+", default=0)
    error_code: int = int16("1+", default=0)
    replica_election_results: Sequence[ReplicaElectionResult] = array(ReplicaElectionResult, "0+")
