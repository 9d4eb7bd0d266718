"""Metadata: returns brokers, topics and the leaders of partitions.

Served versions: 0-13
     0  first version
     1  racks, controller id, internal topics; null requests all topics
     2  cluster id (KIP-78)
     3  adds throttle_time_ms (KIP-124)
     4  allow_auto_topic_creation
     5  offline replicas (KIP-112)
     6  responses precede throttling (KIP-219)
     7  leader epochs (KIP-320)
     8  authorized operations (KIP-430)
     9  flexible
    10  returns topic ids (KIP-516)
    11  removes the authorized operations of the cluster (KIP-700)
    12  topics by id (KIP-516)
    13  error_code of the request (KIP-1102)
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
    string,
    uuid,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


class MetadataRequestTopic(Message):
    topic_id: bytes = uuid("10+", default=ZERO_UUID, ignorable=True)
    name: str | None = string("0+", nullable="10+")


class MetadataRequest(Message, api=ApiKey.METADATA, versions="0-13", flexible="9+"):
    topics: Sequence[MetadataRequestTopic] | None = array(MetadataRequestTopic, "0+", nullable="1+")
    allow_auto_topic_creation: bool = boolean("4+", default=True)
    include_cluster_authorized_operations: bool = boolean("8-10", default=False)
    include_topic_authorized_operations: bool = boolean("8+", default=False)


class MetadataResponseBroker(Message):
    node_id: int = int32("0+")
    host: str = string("0+")
    port: int = int32("0+")
    rack: str | None = string("1+", nullable="1+", default=None, ignorable=True)


class MetadataResponsePartition(Message):
    error_code: int = int16("0+")
    partition_index: int = int32("0+")
    leader_id: int = int32("0+")
    leader_epoch: int = int32("7+", default=-1, ignorable=True)
    replica_nodes: Sequence[int] = array(INT32, "0+")
    isr_nodes: Sequence[int] = array(INT32, "0+")
    offline_replicas: Sequence[int] = array(INT32, "5+", default=(), ignorable=True)


class MetadataResponseTopic(Message):
    error_code: int = int16("0+")
    name: str | None = string("0+", nullable="12+")
    topic_id: bytes = uuid("10+", default=ZERO_UUID, ignorable=True)
    is_internal: bool = boolean("1+", default=False, ignorable=True)
    partitions: Sequence[MetadataResponsePartition] = array(MetadataResponsePartition, "0+")
    topic_authorized_operations: int = int32("8+", default=-0x80000000)


class MetadataResponse(Message, api=ApiKey.METADATA, versions="0-13", flexible="9+"):
    throttle_time_ms: int = int32("3+", default=0, ignorable=True)
    brokers: Sequence[MetadataResponseBroker] = array(MetadataResponseBroker, "0+")
    cluster_id: str | None = string("2+", nullable="2+", default=None, ignorable=True)
    controller_id: int = int32("1+", default=-1, ignorable=True)
    topics: Sequence[MetadataResponseTopic] = array(MetadataResponseTopic, "0+")
    cluster_authorized_operations: int = int32("8-10", default=-0x80000000)
    error_code: int = int16("13+", default=0, ignorable=True)
