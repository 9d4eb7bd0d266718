"""CreateTopics: creates topics with partitions, replicas and configuration.

Served versions: 2-7
     2  adds throttle_time_ms (KIP-124)
     3  responses precede throttling (KIP-219)
     4  num_partitions and replication_factor can be -1, the broker default (KIP-464)
     5  flexible; returns the configuration of the topic (KIP-525)
     6  can return THROTTLING_QUOTA_EXCEEDED (KIP-599)
     7  returns the topic id (KIP-516)
Limits: timeout_ms is ignored; the request completes without waiting.
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
    int8,
    int16,
    int32,
    string,
    uuid,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


class CreatableReplicaAssignment(Message):
    partition_index: int = int32("0+")
    broker_ids: Sequence[int] = array(INT32, "0+")


class CreatableTopicConfig(Message):
    name: str = string("0+")
    value: str | None = string("0+", nullable="0+")


class CreatableTopic(Message):
    name: str = string("0+")
    num_partitions: int = int32("0+")
    replication_factor: int = int16("0+")
    assignments: Sequence[CreatableReplicaAssignment] = array(CreatableReplicaAssignment, "0+")
    configs: Sequence[CreatableTopicConfig] = array(CreatableTopicConfig, "0+")


class CreateTopicsRequest(Message, api=ApiKey.CREATE_TOPICS, versions="2-7", flexible="5+"):
    topics: Sequence[CreatableTopic] = array(CreatableTopic, "0+")
    timeout_ms: int = int32("0+", default=60000)
    validate_only: bool = boolean("1+", default=False)


class CreatableTopicConfigs(Message):
    name: str = string("5+", default="")
    value: str | None = string("5+", nullable="5+", default="")
    read_only: bool = boolean("5+", default=False)
    config_source: int = int8("5+", default=-1, ignorable=True)
    is_sensitive: bool = boolean("5+", default=False)


class CreatableTopicResult(Message):
    name: str = string("0+")
    topic_id: bytes = uuid("7+", default=ZERO_UUID, ignorable=True)
    error_code: int = int16("0+")
    error_message: str | None = string("1+", nullable="0+", default="", ignorable=True)
    topic_config_error_code: int = int16("5+", tag=0, default=0, ignorable=True)
    num_partitions: int = int32("5+", default=-1, ignorable=True)
    replication_factor: int = int16("5+", default=-1, ignorable=True)
    configs: Sequence[CreatableTopicConfigs] | None = array(
        CreatableTopicConfigs, "5+", nullable="5+", default=(), ignorable=True
    )


class CreateTopicsResponse(Message, api=ApiKey.CREATE_TOPICS, versions="2-7", flexible="5+"):
    throttle_time_ms: int = int32("2+", default=0, ignorable=True)
    topics: Sequence[CreatableTopicResult] = array(CreatableTopicResult, "0+")
