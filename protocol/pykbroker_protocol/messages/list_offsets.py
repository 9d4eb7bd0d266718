"""ListOffsets: the offset at a timestamp, at the start or at the end of a partition."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker_protocol.api_keys import ApiKey
from pykbroker_protocol.message import (
    Message,
    array,
    int8,
    int16,
    int32,
    int64,
    string,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


class ListOffsetsPartition(Message):
    partition_index: int = int32("0+")
    current_leader_epoch: int = int32("4+", default=-1, ignorable=True)
    timestamp: int = int64("0+")


class ListOffsetsTopic(Message):
    name: str = string("0+")
    partitions: Sequence[ListOffsetsPartition] = array(ListOffsetsPartition, "0+")


class ListOffsetsRequest(Message, api=ApiKey.LIST_OFFSETS, versions="1-11", flexible="6+"):
    replica_id: int = int32("0+")
    isolation_level: int = int8("2+", default=0)
    topics: Sequence[ListOffsetsTopic] = array(ListOffsetsTopic, "0+")
    timeout_ms: int = int32("10+", default=0, ignorable=True)


class ListOffsetsPartitionResponse(Message):
    partition_index: int = int32("0+")
    error_code: int = int16("0+")
    timestamp: int = int64("1+", default=-1)
    offset: int = int64("1+", default=-1)
    leader_epoch: int = int32("4+", default=-1)


class ListOffsetsTopicResponse(Message):
    name: str = string("0+")
    partitions: Sequence[ListOffsetsPartitionResponse] = array(ListOffsetsPartitionResponse, "0+")


class ListOffsetsResponse(Message, api=ApiKey.LIST_OFFSETS, versions="1-11", flexible="6+"):
    throttle_time_ms: int = int32("2+", default=0, ignorable=True)
    topics: Sequence[ListOffsetsTopicResponse] = array(ListOffsetsTopicResponse, "0+")
