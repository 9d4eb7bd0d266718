"""ListPartitionReassignments: lists partitions that are being reassigned.

Served versions: 0
     0  first version, flexible (KIP-455)
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
    string,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


class ListPartitionReassignmentsTopics(Message):
    name: str = string("0+")
    partition_indexes: Sequence[int] = array(INT32, "0+")


class ListPartitionReassignmentsRequest(
    Message, api=ApiKey.LIST_PARTITION_REASSIGNMENTS, versions="0", flexible="0+"
):
    timeout_ms: int = int32("0+", default=60000)
    topics: Sequence[ListPartitionReassignmentsTopics] | None = array(
        ListPartitionReassignmentsTopics, "0+", nullable="0+", default=None
    )


class OngoingPartitionReassignment(Message):
    partition_index: int = int32("0+")
    replicas: Sequence[int] = array(INT32, "0+")
    adding_replicas: Sequence[int] = array(INT32, "0+")
    removing_replicas: Sequence[int] = array(INT32, "0+")


class OngoingTopicReassignment(Message):
    name: str = string("0+")
    partitions: Sequence[OngoingPartitionReassignment] = array(OngoingPartitionReassignment, "0+")


class ListPartitionReassignmentsResponse(
    Message, api=ApiKey.LIST_PARTITION_REASSIGNMENTS, versions="0", flexible="0+"
):
    throttle_time_ms: int = int32("0+", default=0)
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default="")
    topics: Sequence[OngoingTopicReassignment] = array(OngoingTopicReassignment, "0+")
