"""DescribeLogDirs: returns log directories of a broker, sizes of replicas and free space.

Served versions: 1-5
     1  first version of Apache Kafka 4 (KIP-113)
     2  flexible
     3  error_code of the request (KIP-784)
     4  total_bytes and usable_bytes (KIP-827)
     5  is_cordoned (KIP-1066)
Limits: A broker has one log directory; it is never cordoned.
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
    int64,
    string,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


class DescribableLogDirTopic(Message):
    topic: str = string("0+")
    partitions: Sequence[int] = array(INT32, "0+")


class DescribeLogDirsRequest(Message, api=ApiKey.DESCRIBE_LOG_DIRS, versions="1-5", flexible="2+"):
    topics: Sequence[DescribableLogDirTopic] | None = array(
        DescribableLogDirTopic, "0+", nullable="0+"
    )


class DescribeLogDirsPartition(Message):
    partition_index: int = int32("0+")
    partition_size: int = int64("0+")
    offset_lag: int = int64("0+")
    is_future_key: bool = boolean("0+")


class DescribeLogDirsTopic(Message):
    name: str = string("0+")
    partitions: Sequence[DescribeLogDirsPartition] = array(DescribeLogDirsPartition, "0+")


class DescribeLogDirsResult(Message):
    error_code: int = int16("0+")
    log_dir: str = string("0+")
    topics: Sequence[DescribeLogDirsTopic] = array(DescribeLogDirsTopic, "0+")
    total_bytes: int = int64("4+", default=-1, ignorable=True)
    usable_bytes: int = int64("4+", default=-1, ignorable=True)
    is_cordoned: bool = boolean("5+", default=False, ignorable=True)


class DescribeLogDirsResponse(Message, api=ApiKey.DESCRIBE_LOG_DIRS, versions="1-5", flexible="2+"):
    throttle_time_ms: int = int32("0+", default=0)
    error_code: int = int16("3+", default=0, ignorable=True)
    results: Sequence[DescribeLogDirsResult] = array(DescribeLogDirsResult, "0+")
