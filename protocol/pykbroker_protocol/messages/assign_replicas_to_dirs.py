"""AssignReplicasToDirs: reports the log directories of replicas to the controller.

Not served. Declared versions: 0
     0  first version, flexible (KIP-858)
Reason: Brokers send it to a controller; controllers serve it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker_protocol.api_keys import ApiKey
from pykbroker_protocol.message import (
    Message,
    array,
    int16,
    int32,
    int64,
    uuid,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


class PartitionData(Message):
    partition_index: int = int32("0+")


class TopicData(Message):
    topic_id: bytes = uuid("0+")
    partitions: Sequence[PartitionData] = array(PartitionData, "0+")


class DirectoryData(Message):
    id: bytes = uuid("0+")
    topics: Sequence[TopicData] = array(TopicData, "0+")


class AssignReplicasToDirsRequest(
    Message, api=ApiKey.ASSIGN_REPLICAS_TO_DIRS, versions="0", flexible="0+"
):
    broker_id: int = int32("0+")
    broker_epoch: int = int64("0+", default=-1)
    directories: Sequence[DirectoryData] = array(DirectoryData, "0+")


class PartitionResult(Message):
    partition_index: int = int32("0+")
    error_code: int = int16("0+")


class TopicResult(Message):
    topic_id: bytes = uuid("0+")
    partitions: Sequence[PartitionResult] = array(PartitionResult, "0+")


class DirectoryResult(Message):
    id: bytes = uuid("0+")
    topics: Sequence[TopicResult] = array(TopicResult, "0+")


class AssignReplicasToDirsResponse(
    Message, api=ApiKey.ASSIGN_REPLICAS_TO_DIRS, versions="0", flexible="0+"
):
    throttle_time_ms: int = int32("0+", default=0)
    error_code: int = int16("0+")
    directories: Sequence[DirectoryResult] = array(DirectoryResult, "0+")
