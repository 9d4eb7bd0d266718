"""ListOffsets: returns the offset of a timestamp, or the start or end of a partition.

Served versions: 1-11
     1  one offset with its timestamp (KIP-79)
     2  isolation_level (KIP-98) and throttle_time_ms (KIP-124)
     3  responses precede throttling (KIP-219)
     4  current_leader_epoch (KIP-320)
     5  can return OFFSET_NOT_AVAILABLE (KIP-207)
     6  flexible
     7  timestamp -3: record with the greatest timestamp (KIP-734)
     8  timestamp -4: start of the local log (KIP-405)
     9  timestamp -5: last tiered offset (KIP-1005)
    10  timeout_ms of remote lookups (KIP-1075)
    11  timestamp -6: first offset not tiered (KIP-1023)
Limits: No tiered storage: timestamps -5 and -6 return offset -1.
"""

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
