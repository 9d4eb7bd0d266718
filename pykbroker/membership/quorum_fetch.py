"""Fetch and FetchSnapshot of the metadata log, as pure values: requests and the next step.

An observer fetches like a follower, with a replica id that is not a voter. The answer of the leader
has records, or the point at which the log of the observer diverges, or the id of a snapshot.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from pykbroker.address import Address
from pykbroker.client.errors import error_of
from pykbroker.membership.quorum_view import CONTROLLERS_MAX, NO_LEADER, UNKNOWN_EPOCH
from pykbroker.metadata.snapshot import SnapshotName
from pykbroker.metadata.topic_names import CLUSTER_METADATA_TOPIC
from pykbroker.metadata_log.metadata_log import METADATA_TOPIC_ID
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.late_dataclass import dataclass
from pykbroker_protocol.message import ZERO_UUID
from pykbroker_protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ReplicaState,
)
from pykbroker_protocol.messages.fetch_snapshot import (
    FetchSnapshotRequest,
    PartitionSnapshot,
    SnapshotId,
    TopicSnapshot,
)

if TYPE_CHECKING:
    from pykbroker_protocol.compiler import Buffer
    from pykbroker_protocol.messages.fetch import FetchResponse, PartitionData
    from pykbroker_protocol.messages.fetch_snapshot import (
        FetchSnapshotResponse,
        PartitionSnapshotPart,
    )

NO_REPLICA: Final = -1
WAIT_MS: Final = 500
"""How long the leader holds a Fetch without new records, as Apache Kafka's brokers request it."""

FETCH_BYTES_MAX: Final = 1024 * 1024
"""Bounds the work of one answer; the leader returns at least one batch."""

SNAPSHOT_PART_BYTES_MAX: Final = 1024 * 1024
SNAPSHOT_BYTES_MAX: Final = 1024 * 1024 * 1024
"""Bounds the disk that a snapshot can take; one of a million partitions has about 150 MB."""

UNKNOWN_HIGH_WATERMARK: Final = -1


class NamedLeader(NamedTuple):
    """The leader that a response names."""

    leader_id: int
    leader_epoch: int
    endpoints: tuple[tuple[int, Address], ...]


UNNAMED: Final = NamedLeader(NO_LEADER, UNKNOWN_EPOCH, ())


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """The end of the observer's log, and the leader that it follows."""

    node_id: int
    cluster_id: str | None
    directory_id: bytes
    leader_epoch: int
    end_offset: int
    last_epoch: int
    log_start_offset: int
    high_watermark: int


# --- the next step after a response


class Append(NamedTuple):
    """Batches that follow the end of the log; none if only the high watermark is new."""

    records: Buffer
    high_watermark: int


class Truncate(NamedTuple):
    """The log diverges: the leader's records of `epoch` and before end at `end_offset`."""

    epoch: int
    end_offset: int


class LoadSnapshot(NamedTuple):
    """The leader has deleted the records that the observer lacks."""

    name: SnapshotName


class AnotherLeader(NamedTuple):
    """The asked controller is not the leader of this epoch."""

    reason: str


class WrongCluster(NamedTuple):
    """The controller belongs to another cluster."""


class Retry(NamedTuple):
    """An error without a specific action."""

    reason: str


Step: TypeAlias = Append | Truncate | LoadSnapshot | AnotherLeader | WrongCluster | Retry

_OF_ANOTHER_LEADER = frozenset(
    {
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
    }
)


def probe_request(cluster_id: str | None) -> FetchRequest:
    """A Fetch in epoch 0: every controller answers it with the current leader."""
    partition = FetchPartition(
        partition=0,
        current_leader_epoch=UNKNOWN_EPOCH,
        fetch_offset=0,
        last_fetched_epoch=UNKNOWN_EPOCH,
        log_start_offset=0,
        partition_max_bytes=0,
    )
    return _request(partition, node_id=NO_REPLICA, cluster_id=cluster_id, wait_ms=0)


def fetch_request(position: Position) -> FetchRequest:
    partition = FetchPartition(
        partition=0,
        current_leader_epoch=position.leader_epoch,
        fetch_offset=position.end_offset,
        last_fetched_epoch=position.last_epoch,
        log_start_offset=position.log_start_offset,
        partition_max_bytes=0,
        replica_directory_id=position.directory_id,
        high_watermark=position.high_watermark,
    )
    return _request(
        partition, node_id=position.node_id, cluster_id=position.cluster_id, wait_ms=WAIT_MS
    )


def _request(
    partition: FetchPartition, *, node_id: int, cluster_id: str | None, wait_ms: int
) -> FetchRequest:
    return FetchRequest(
        cluster_id=cluster_id,
        replica_state=ReplicaState(replica_id=node_id),
        max_wait_ms=wait_ms,
        min_bytes=0,
        max_bytes=FETCH_BYTES_MAX,
        topics=[
            FetchTopic(
                topic=CLUSTER_METADATA_TOPIC, topic_id=METADATA_TOPIC_ID, partitions=[partition]
            )
        ],
    )


def snapshot_request(
    position: Position, name: SnapshotName, snapshot_position: int
) -> FetchSnapshotRequest:
    partition = PartitionSnapshot(
        partition=0,
        current_leader_epoch=position.leader_epoch,
        snapshot_id=SnapshotId(end_offset=name.end_offset, epoch=name.epoch),
        position=snapshot_position,
        replica_directory_id=position.directory_id,
    )
    return FetchSnapshotRequest(
        cluster_id=position.cluster_id,
        replica_id=position.node_id,
        max_bytes=SNAPSHOT_PART_BYTES_MAX,
        topics=[TopicSnapshot(name=CLUSTER_METADATA_TOPIC, partitions=[partition])],
    )


def leader_in(response: FetchResponse) -> NamedLeader:
    """Returns the leader that a response names, or UNNAMED."""
    partition = partition_in(response)
    if partition is None:
        return UNNAMED
    leader, named = partition.current_leader, response.node_endpoints[:CONTROLLERS_MAX]
    endpoints = tuple((it.node_id, Address(it.host, it.port)) for it in named)
    return NamedLeader(leader.leader_id, leader.leader_epoch, endpoints)


def snapshot_part_in(
    response: FetchSnapshotResponse, name: SnapshotName, position: int
) -> PartitionSnapshotPart | AnotherLeader | WrongCluster | Retry:
    """Returns the requested part of a snapshot, after checking that it is the requested one."""
    if response.error_code:
        return _after_error(response.error_code)
    if len(response.topics) != 1 or len(response.topics[0].partitions) != 1:
        return Retry("the response does not have the metadata partition")
    part = response.topics[0].partitions[0]
    if part.error_code:
        return _after_error(part.error_code)
    received = SnapshotName(part.snapshot_id.end_offset, part.snapshot_id.epoch)
    length = len(part.unaligned_records)
    if received != name or part.position != position:
        return Retry(f"received snapshot {received} at {part.position}, requested {name}")
    if not 0 < part.size <= SNAPSHOT_BYTES_MAX or not 0 < length <= part.size - position:
        return Retry(f"received {length} bytes at {position} of a snapshot of {part.size} bytes")
    return part


def partition_in(response: FetchResponse) -> PartitionData | None:
    """Returns the only partition of a response, or None if the response has another content."""
    if len(response.responses) != 1 or len(response.responses[0].partitions) != 1:
        return None
    topic = response.responses[0]
    if topic.topic_id not in {METADATA_TOPIC_ID, ZERO_UUID}:
        return None
    return topic.partitions[0]


def next_step(response: FetchResponse) -> Step:
    """Returns what the observer does with the response to its Fetch."""
    if response.error_code:
        return _after_error(response.error_code)
    partition = partition_in(response)
    if partition is None:
        return Retry("the response does not have the metadata partition")
    if partition.error_code:
        return _after_error(partition.error_code)
    diverging, snapshot = partition.diverging_epoch, partition.snapshot_id
    if snapshot.end_offset >= 0 and snapshot.epoch >= 0:
        return LoadSnapshot(SnapshotName(snapshot.end_offset, snapshot.epoch))
    if diverging.epoch >= 0 and diverging.end_offset >= 0:
        return Truncate(diverging.epoch, diverging.end_offset)
    return Append(partition.records or b"", partition.high_watermark)


def _after_error(number: int) -> AnotherLeader | WrongCluster | Retry:
    error = error_of(number)
    if error in _OF_ANOTHER_LEADER:
        return AnotherLeader(error.name)
    if error is ErrorCode.INCONSISTENT_CLUSTER_ID:
        return WrongCluster()
    return Retry(error.name)
