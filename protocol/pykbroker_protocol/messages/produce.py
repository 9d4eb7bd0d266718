"""Produce: appends record batches to partitions.

Served versions: 3-13
     3  transactional_id; record batches of format version 2 (KIP-98)
     4  can return KAFKA_STORAGE_ERROR (KIP-112)
     5  log_start_offset in the response (KIP-107)
     6  responses precede throttling (KIP-219)
     7  zstd (KIP-110)
     8  record_errors and error_message (KIP-467)
     9  flexible
    10  current_leader and node_endpoints (KIP-951)
    11  can return TRANSACTION_ABORTABLE (KIP-890)
    12  adds partitions to the transaction implicitly (KIP-890)
    13  topic ids instead of names (KIP-516)
Limits: No quotas: throttle_time_ms is 0. Versions 0-2 are advertised and rejected (KAFKA-18659).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker_protocol.api_keys import ApiKey
from pykbroker_protocol.message import (
    ZERO_UUID,
    Message,
    array,
    int16,
    int32,
    int64,
    nested,
    record_batches,
    string,
    uuid,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pykbroker_protocol.compiler import Buffer


class PartitionProduceData(Message):
    index: int = int32("0+")
    records: Buffer | None = record_batches("0+", nullable="0+")


class TopicProduceData(Message):
    name: str = string("0-12", default="", ignorable=True)
    topic_id: bytes = uuid("13+", default=ZERO_UUID, ignorable=True)
    partition_data: Sequence[PartitionProduceData] = array(PartitionProduceData, "0+")


class ProduceRequest(Message, api=ApiKey.PRODUCE, versions="3-13", flexible="9+"):
    transactional_id: str | None = string("3+", nullable="3+", default=None)
    acks: int = int16("0+")
    timeout_ms: int = int32("0+")
    topic_data: Sequence[TopicProduceData] = array(TopicProduceData, "0+")


class BatchIndexAndErrorMessage(Message):
    batch_index: int = int32("8+", default=0)
    batch_index_error_message: str | None = string("8+", nullable="8+", default=None)


class LeaderIdAndEpoch(Message):
    leader_id: int = int32("10+", default=-1)
    leader_epoch: int = int32("10+", default=-1)


class PartitionProduceResponse(Message):
    index: int = int32("0+")
    error_code: int = int16("0+")
    base_offset: int = int64("0+")
    log_append_time_ms: int = int64("2+", default=-1, ignorable=True)
    log_start_offset: int = int64("5+", default=-1, ignorable=True)
    record_errors: Sequence[BatchIndexAndErrorMessage] = array(
        BatchIndexAndErrorMessage, "8+", default=(), ignorable=True
    )
    error_message: str | None = string("8+", nullable="8+", default=None, ignorable=True)
    current_leader: LeaderIdAndEpoch = nested(
        LeaderIdAndEpoch, "10+", tag=0, default=LeaderIdAndEpoch()
    )


class TopicProduceResponse(Message):
    name: str = string("0-12", default="", ignorable=True)
    topic_id: bytes = uuid("13+", default=ZERO_UUID, ignorable=True)
    partition_responses: Sequence[PartitionProduceResponse] = array(PartitionProduceResponse, "0+")


class NodeEndpoint(Message):
    node_id: int = int32("10+", default=0)
    host: str = string("10+", default="")
    port: int = int32("10+", default=0)
    rack: str | None = string("10+", nullable="10+", default=None)


class ProduceResponse(Message, api=ApiKey.PRODUCE, versions="3-13", flexible="9+"):
    responses: Sequence[TopicProduceResponse] = array(TopicProduceResponse, "0+")
    throttle_time_ms: int = int32("1+", default=0, ignorable=True)
    node_endpoints: Sequence[NodeEndpoint] = array(NodeEndpoint, "10+", tag=0, default=())
