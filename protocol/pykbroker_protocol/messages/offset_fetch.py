"""OffsetFetch: returns committed offsets of groups.

Served versions: 1-10
     1  offsets of __consumer_offsets
     2  null requests all topics; error_code of the group (KIP-88)
     3  adds throttle_time_ms (KIP-124)
     4  responses precede throttling (KIP-219)
     5  committed_leader_epoch (KIP-320)
     6  flexible
     7  require_stable; can return UNSTABLE_OFFSET_COMMIT (KIP-447)
     8  several groups per request (KIP-709)
     9  member id and epoch of consumer groups (KIP-848)
    10  topic ids instead of names (KIP-848)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker_protocol.api_keys import ApiKey
from pykbroker_protocol.message import (
    INT32,
    ZERO_UUID,
    Message,
    array,
    boolean,
    int16,
    int32,
    int64,
    string,
    uuid,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


class OffsetFetchRequestTopic(Message):
    name: str = string("0-7", default="")
    partition_indexes: Sequence[int] = array(INT32, "0-7", default=())


class OffsetFetchRequestTopics(Message):
    name: str = string("8-9", default="", ignorable=True)
    topic_id: bytes = uuid("10+", default=ZERO_UUID, ignorable=True)
    partition_indexes: Sequence[int] = array(INT32, "8+", default=())


class OffsetFetchRequestGroup(Message):
    group_id: str = string("8+", default="")
    member_id: str | None = string("9+", nullable="9+", default=None, ignorable=True)
    member_epoch: int = int32("9+", default=-1, ignorable=True)
    topics: Sequence[OffsetFetchRequestTopics] | None = array(
        OffsetFetchRequestTopics, "8+", nullable="8+", default=()
    )


class OffsetFetchRequest(Message, api=ApiKey.OFFSET_FETCH, versions="1-10", flexible="6+"):
    group_id: str = string("0-7", default="")
    topics: Sequence[OffsetFetchRequestTopic] | None = array(
        OffsetFetchRequestTopic, "0-7", nullable="2-7", default=()
    )
    groups: Sequence[OffsetFetchRequestGroup] = array(OffsetFetchRequestGroup, "8+", default=())
    require_stable: bool = boolean("7+", default=False)


class OffsetFetchResponsePartition(Message):
    partition_index: int = int32("0-7", default=0)
    committed_offset: int = int64("0-7", default=0)
    committed_leader_epoch: int = int32("5-7", default=-1, ignorable=True)
    metadata: str | None = string("0-7", nullable="0-7", default="")
    error_code: int = int16("0-7", default=0)


class OffsetFetchResponseTopic(Message):
    name: str = string("0-7", default="")
    partitions: Sequence[OffsetFetchResponsePartition] = array(
        OffsetFetchResponsePartition, "0-7", default=()
    )


class OffsetFetchResponsePartitions(Message):
    partition_index: int = int32("8+", default=0)
    committed_offset: int = int64("8+", default=0)
    committed_leader_epoch: int = int32("8+", default=-1, ignorable=True)
    metadata: str | None = string("8+", nullable="8+", default="")
    error_code: int = int16("8+", default=0)


class OffsetFetchResponseTopics(Message):
    name: str = string("8-9", default="", ignorable=True)
    topic_id: bytes = uuid("10+", default=ZERO_UUID, ignorable=True)
    partitions: Sequence[OffsetFetchResponsePartitions] = array(
        OffsetFetchResponsePartitions, "8+", default=()
    )


class OffsetFetchResponseGroup(Message):
    group_id: str = string("8+", default="")
    topics: Sequence[OffsetFetchResponseTopics] = array(OffsetFetchResponseTopics, "8+", default=())
    error_code: int = int16("8+", default=0)


class OffsetFetchResponse(Message, api=ApiKey.OFFSET_FETCH, versions="1-10", flexible="6+"):
    throttle_time_ms: int = int32("3+", default=0, ignorable=True)
    topics: Sequence[OffsetFetchResponseTopic] = array(OffsetFetchResponseTopic, "0-7", default=())
    error_code: int = int16("2-7", default=0, ignorable=True)
    groups: Sequence[OffsetFetchResponseGroup] = array(OffsetFetchResponseGroup, "8+", default=())
