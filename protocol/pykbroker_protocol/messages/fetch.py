"""Fetch: reads record batches of partitions, for consumers and followers.

Served versions: 4-18
     4  isolation_level, last stable offset and aborted transactions (KIP-98)
     5  log_start_offset (KIP-107)
     6  can return KAFKA_STORAGE_ERROR (KIP-112)
     7  fetch sessions (KIP-227)
     8  responses precede throttling (KIP-219)
     9  current_leader_epoch (KIP-320)
    10  zstd (KIP-110)
    11  rack_id and preferred_read_replica (KIP-392)
    12  flexible; last_fetched_epoch and diverging_epoch (KIP-595)
    13  topic ids instead of names (KIP-516)
    14  can return OFFSET_MOVED_TO_TIERED_STORAGE (KIP-405)
    15  replica_state instead of replica_id (KIP-903)
    16  node_endpoints of new leaders (KIP-951)
    17  replica_directory_id (KIP-853)
    18  high watermark of the follower (KIP-1166)
Limits: No quotas (throttle_time_ms is 0), tiered storage or metadata snapshots.
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
    nested,
    record_batches,
    string,
    uuid,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pykbroker_protocol.compiler import Buffer


class ReplicaState(Message):
    replica_id: int = int32("15+", default=-1)
    replica_epoch: int = int64("15+", default=-1)


class FetchPartition(Message):
    partition: int = int32("0+")
    current_leader_epoch: int = int32("9+", default=-1, ignorable=True)
    fetch_offset: int = int64("0+")
    last_fetched_epoch: int = int32("12+", default=-1)
    log_start_offset: int = int64("5+", default=-1, ignorable=True)
    partition_max_bytes: int = int32("0+")
    replica_directory_id: bytes = uuid("17+", tag=0, default=ZERO_UUID, ignorable=True)
    high_watermark: int = int64("18+", tag=1, default=0x7FFFFFFFFFFFFFFF, ignorable=True)


class FetchTopic(Message):
    topic: str = string("0-12", default="", ignorable=True)
    topic_id: bytes = uuid("13+", default=ZERO_UUID, ignorable=True)
    partitions: Sequence[FetchPartition] = array(FetchPartition, "0+")


class ForgottenTopic(Message):
    topic: str = string("7-12", default="", ignorable=True)
    topic_id: bytes = uuid("13+", default=ZERO_UUID, ignorable=True)
    partitions: Sequence[int] = array(INT32, "7+", default=())


class FetchRequest(Message, api=ApiKey.FETCH, versions="4-18", flexible="12+"):
    cluster_id: str | None = string("12+", nullable="12+", tag=0, default=None, ignorable=True)
    replica_id: int = int32("0-14", default=-1)
    replica_state: ReplicaState = nested(ReplicaState, "15+", tag=1, default=ReplicaState())
    max_wait_ms: int = int32("0+")
    min_bytes: int = int32("0+")
    max_bytes: int = int32("3+", default=0x7FFFFFFF, ignorable=True)
    isolation_level: int = int8("4+", default=0, ignorable=True)
    session_id: int = int32("7+", default=0, ignorable=True)
    session_epoch: int = int32("7+", default=-1, ignorable=True)
    topics: Sequence[FetchTopic] = array(FetchTopic, "0+")
    forgotten_topics_data: Sequence[ForgottenTopic] = array(ForgottenTopic, "7+", default=())
    rack_id: str = string("11+", default="", ignorable=True)


class EpochEndOffset(Message):
    epoch: int = int32("12+", default=-1)
    end_offset: int = int64("12+", default=-1)


class LeaderIdAndEpoch(Message):
    leader_id: int = int32("12+", default=-1)
    leader_epoch: int = int32("12+", default=-1)


class SnapshotId(Message):
    end_offset: int = int64("0+", default=-1)
    epoch: int = int32("0+", default=-1)


class AbortedTransaction(Message):
    producer_id: int = int64("4+")
    first_offset: int = int64("4+")


class PartitionData(Message):
    partition_index: int = int32("0+")
    error_code: int = int16("0+")
    high_watermark: int = int64("0+")
    last_stable_offset: int = int64("4+", default=-1, ignorable=True)
    log_start_offset: int = int64("5+", default=-1, ignorable=True)
    diverging_epoch: EpochEndOffset = nested(EpochEndOffset, "12+", tag=0, default=EpochEndOffset())
    current_leader: LeaderIdAndEpoch = nested(
        LeaderIdAndEpoch, "12+", tag=1, default=LeaderIdAndEpoch()
    )
    snapshot_id: SnapshotId = nested(SnapshotId, "12+", tag=2, default=SnapshotId())
    aborted_transactions: Sequence[AbortedTransaction] | None = array(
        AbortedTransaction, "4+", nullable="4+", ignorable=True
    )
    preferred_read_replica: int = int32("11+", default=-1)
    records: Buffer | None = record_batches("0+", nullable="0+")


class FetchableTopicResponse(Message):
    topic: str = string("0-12", default="", ignorable=True)
    topic_id: bytes = uuid("13+", default=ZERO_UUID, ignorable=True)
    partitions: Sequence[PartitionData] = array(PartitionData, "0+")


class NodeEndpoint(Message):
    node_id: int = int32("16+", default=0)
    host: str = string("16+", default="")
    port: int = int32("16+", default=0)
    rack: str | None = string("16+", nullable="16+", default=None)


class FetchResponse(Message, api=ApiKey.FETCH, versions="4-18", flexible="12+"):
    throttle_time_ms: int = int32("1+", default=0, ignorable=True)
    error_code: int = int16("7+", default=0, ignorable=True)
    session_id: int = int32("7+", default=0)
    responses: Sequence[FetchableTopicResponse] = array(FetchableTopicResponse, "0+")
    node_endpoints: Sequence[NodeEndpoint] = array(NodeEndpoint, "16+", tag=0, default=())
