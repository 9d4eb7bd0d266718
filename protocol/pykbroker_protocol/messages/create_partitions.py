"""CreatePartitions: adds partitions to topics.

Served versions: 0-3
     0  first version (KIP-195)
     1  responses precede throttling (KIP-219)
     2  flexible
     3  can return THROTTLING_QUOTA_EXCEEDED (KIP-599)
Limits: timeout_ms is ignored; the request completes without waiting.
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


class CreatePartitionsAssignment(Message):
    broker_ids: Sequence[int] = array(INT32, "0+")


class CreatePartitionsTopic(Message):
    name: str = string("0+")
    count: int = int32("0+")
    assignments: Sequence[CreatePartitionsAssignment] | None = array(
        CreatePartitionsAssignment, "0+", nullable="0+"
    )


class CreatePartitionsRequest(Message, api=ApiKey.CREATE_PARTITIONS, versions="0-3", flexible="2+"):
    topics: Sequence[CreatePartitionsTopic] = array(CreatePartitionsTopic, "0+")
    timeout_ms: int = int32("0+")
    validate_only: bool = boolean("0+")


class CreatePartitionsTopicResult(Message):
    name: str = string("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)


class CreatePartitionsResponse(
    Message, api=ApiKey.CREATE_PARTITIONS, versions="0-3", flexible="2+"
):
    throttle_time_ms: int = int32("0+", default=0)
    results: Sequence[CreatePartitionsTopicResult] = array(CreatePartitionsTopicResult, "0+")
