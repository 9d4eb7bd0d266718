"""AlterPartitionReassignments: moves partitions to other brokers or cancels a move.

Served versions: 0-1
     0  first version, flexible (KIP-455)
     1  allow_replication_factor_change (KIP-860)
Limits: No replicas are copied: requests that need a copy get INVALID_REPLICA_ASSIGNMENT.
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
    string,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


class ReassignablePartition(Message):
    partition_index: int = int32("0+")
    replicas: Sequence[int] | None = array(INT32, "0+", nullable="0+", default=None)


class ReassignableTopic(Message):
    name: str = string("0+")
    partitions: Sequence[ReassignablePartition] = array(ReassignablePartition, "0+")


class AlterPartitionReassignmentsRequest(
    Message, api=ApiKey.ALTER_PARTITION_REASSIGNMENTS, versions="0-1", flexible="0+"
):
    timeout_ms: int = int32("0+", default=60000)
    allow_replication_factor_change: bool = boolean("1+", default=True)
    topics: Sequence[ReassignableTopic] = array(ReassignableTopic, "0+")


class ReassignablePartitionResponse(Message):
    partition_index: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default="")


class ReassignableTopicResponse(Message):
    name: str = string("0+")
    partitions: Sequence[ReassignablePartitionResponse] = array(ReassignablePartitionResponse, "0+")


class AlterPartitionReassignmentsResponse(
    Message, api=ApiKey.ALTER_PARTITION_REASSIGNMENTS, versions="0-1", flexible="0+"
):
    throttle_time_ms: int = int32("0+", default=0)
    allow_replication_factor_change: bool = boolean("1+", default=True, ignorable=True)
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default="")
    responses: Sequence[ReassignableTopicResponse] = array(ReassignableTopicResponse, "0+")
