"""DescribeProducers: returns the active producers of partitions.

Served versions: 0
     0  first version, flexible (KIP-664)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker_protocol.api_keys import ApiKey
from pykbroker_protocol.message import (
    INT32,
    Message,
    array,
    int16,
    int32,
    int64,
    string,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


class TopicRequest(Message):
    name: str = string("0+")
    partition_indexes: Sequence[int] = array(INT32, "0+")


class DescribeProducersRequest(Message, api=ApiKey.DESCRIBE_PRODUCERS, versions="0", flexible="0+"):
    topics: Sequence[TopicRequest] = array(TopicRequest, "0+")


class ProducerState(Message):
    producer_id: int = int64("0+")
    producer_epoch: int = int32("0+")
    last_sequence: int = int32("0+", default=-1)
    last_timestamp: int = int64("0+", default=-1)
    coordinator_epoch: int = int32("0+")
    current_txn_start_offset: int = int64("0+", default=-1)


class PartitionResponse(Message):
    partition_index: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)
    active_producers: Sequence[ProducerState] = array(ProducerState, "0+")


class TopicResponse(Message):
    name: str = string("0+")
    partitions: Sequence[PartitionResponse] = array(PartitionResponse, "0+")


class DescribeProducersResponse(
    Message, api=ApiKey.DESCRIBE_PRODUCERS, versions="0", flexible="0+"
):
    throttle_time_ms: int = int32("0+", default=0)
    topics: Sequence[TopicResponse] = array(TopicResponse, "0+")
