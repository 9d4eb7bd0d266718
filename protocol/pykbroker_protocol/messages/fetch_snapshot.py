"""FetchSnapshot: reads part of a snapshot of the metadata log.

Not served. Declared versions: 0-1
     0  first version, flexible (KIP-630)
     1  endpoints of the leader, replica_directory_id (KIP-853)
Reason: Brokers send it to a controller; controllers serve it.
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
    uint16,
    uuid,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pykbroker_protocol.compiler import Buffer


class SnapshotId(Message):
    end_offset: int = int64("0+")
    epoch: int = int32("0+")


class PartitionSnapshot(Message):
    partition: int = int32("0+")
    current_leader_epoch: int = int32("0+")
    snapshot_id: SnapshotId = nested(SnapshotId, "0+")
    position: int = int64("0+")
    replica_directory_id: bytes = uuid("1+", tag=0, default=ZERO_UUID, ignorable=True)


class TopicSnapshot(Message):
    name: str = string("0+")
    partitions: Sequence[PartitionSnapshot] = array(PartitionSnapshot, "0+")


class FetchSnapshotRequest(Message, api=ApiKey.FETCH_SNAPSHOT, versions="0-1", flexible="0+"):
    cluster_id: str | None = string("0+", nullable="0+", tag=0, default=None)
    replica_id: int = int32("0+", default=-1)
    max_bytes: int = int32("0+", default=0x7FFFFFFF)
    topics: Sequence[TopicSnapshot] = array(TopicSnapshot, "0+")


class LeaderIdAndEpoch(Message):
    leader_id: int = int32("0+")
    leader_epoch: int = int32("0+")


class PartitionSnapshotPart(Message):
    index: int = int32("0+")
    error_code: int = int16("0+")
    snapshot_id: SnapshotId = nested(SnapshotId, "0+")
    current_leader: LeaderIdAndEpoch = nested(
        LeaderIdAndEpoch, "0+", tag=0, default=LeaderIdAndEpoch(leader_id=0, leader_epoch=0)
    )
    size: int = int64("0+")
    position: int = int64("0+")
    unaligned_records: Buffer = record_batches("0+")


class TopicSnapshotPart(Message):
    name: str = string("0+")
    partitions: Sequence[PartitionSnapshotPart] = array(PartitionSnapshotPart, "0+")


class NodeEndpoint(Message):
    node_id: int = int32("1+")
    host: str = string("1+")
    port: int = uint16("1+")


class FetchSnapshotResponse(Message, api=ApiKey.FETCH_SNAPSHOT, versions="0-1", flexible="0+"):
    throttle_time_ms: int = int32("0+", default=0, ignorable=True)
    error_code: int = int16("0+")
    topics: Sequence[TopicSnapshotPart] = array(TopicSnapshotPart, "0+")
    node_endpoints: Sequence[NodeEndpoint] = array(NodeEndpoint, "1+", tag=0, default=())
