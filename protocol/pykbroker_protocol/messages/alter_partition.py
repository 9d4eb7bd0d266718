"""AlterPartition: changes the in-sync set of partitions that the sender leads.

Not served. Declared versions: 2-3
     2  topic ids; flexible (KIP-841)
     3  new_isr_with_epochs (KIP-903)
Reason: Brokers send it to a controller; controllers serve it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker_protocol.api_keys import ApiKey
from pykbroker_protocol.message import (
    INT32,
    ZERO_UUID,
    Message,
    array,
    int8,
    int16,
    int32,
    int64,
    uuid,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


class BrokerState(Message):
    broker_id: int = int32("3+")
    broker_epoch: int = int64("3+", default=-1)


class PartitionData(Message):
    partition_index: int = int32("0+")
    leader_epoch: int = int32("0+")
    new_isr: Sequence[int] = array(INT32, "0-2", default=())
    new_isr_with_epochs: Sequence[BrokerState] = array(BrokerState, "3+", default=())
    leader_recovery_state: int = int8("1+", default=0)
    partition_epoch: int = int32("0+")


class TopicData(Message):
    topic_id: bytes = uuid("2+", default=ZERO_UUID, ignorable=True)
    partitions: Sequence[PartitionData] = array(PartitionData, "0+")


class AlterPartitionRequest(Message, api=ApiKey.ALTER_PARTITION, versions="2-3", flexible="0+"):
    broker_id: int = int32("0+")
    broker_epoch: int = int64("0+", default=-1)
    topics: Sequence[TopicData] = array(TopicData, "0+")


class PartitionResult(Message):
    partition_index: int = int32("0+")
    error_code: int = int16("0+")
    leader_id: int = int32("0+")
    leader_epoch: int = int32("0+")
    isr: Sequence[int] = array(INT32, "0+")
    leader_recovery_state: int = int8("1+", default=0, ignorable=True)
    partition_epoch: int = int32("0+")


class TopicResult(Message):
    topic_id: bytes = uuid("2+", default=ZERO_UUID, ignorable=True)
    partitions: Sequence[PartitionResult] = array(PartitionResult, "0+")


class AlterPartitionResponse(Message, api=ApiKey.ALTER_PARTITION, versions="2-3", flexible="0+"):
    throttle_time_ms: int = int32("0+", default=0)
    error_code: int = int16("0+")
    topics: Sequence[TopicResult] = array(TopicResult, "0+")
