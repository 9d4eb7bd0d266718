"""Requests of one fetcher to the leader of its partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pykbroker.client.broker_connection import BrokerConnection
from pykbroker.client.errors import Disconnected, InvalidResponse, error_of
from pykbroker.replication.fetch_versions import (
    REPLICA_STATE_SINCE,
    fetch_version,
    list_offsets_version,
)
from pykbroker_protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    ReplicaState,
)
from pykbroker_protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pykbroker.client.connection_options import ConnectionOptions
    from pykbroker.replication.cluster_view import ClusterView
    from pykbroker.replication.follower_session import PartitionKey, Requested, SessionRequest
    from pykbroker_protocol.errors import ErrorCode

LATEST_TIMESTAMP = -1
EARLIEST_TIMESTAMP = -2


class Asked(NamedTuple):
    """A partition whose offsets a follower asks for."""

    topic: str
    partition: int
    leader_epoch: int


class LeaderConnection:
    """Connects to the inter-broker listener of the leader when a request needs it."""

    def __init__(self, leader: int, cluster: ClusterView, options: ConnectionOptions) -> None:
        self._leader = leader
        self._cluster = cluster
        self._options = options
        self._connection: BrokerConnection | None = None

    async def _connected(self) -> BrokerConnection:
        if self._connection is None or not self._connection.is_open:
            address = self._cluster.address_of(self._leader)
            if address is None:
                raise Disconnected(f"broker {self._leader} is not registered")
            self._connection = await BrokerConnection.open(address, self._options)
        return self._connection

    async def fetch(self, request: SessionRequest) -> FetchResponse:
        connection = await self._connected()
        version = fetch_version(self._cluster.metadata_version)
        return await connection.request(
            fetch_request(request, self._cluster, version),
            FetchResponse,
            version_max=version,
            timeout_seconds=self._timeout_seconds,
        )

    async def offsets(
        self, partitions: Sequence[Asked], timestamp: int
    ) -> dict[tuple[str, int], int | ErrorCode]:
        """Returns the first or the end offset of partitions, or the error of each."""
        connection = await self._connected()
        response = await connection.request(
            list_offsets_request(partitions, timestamp, self._cluster.node_id),
            ListOffsetsResponse,
            version_max=list_offsets_version(self._cluster.metadata_version),
            timeout_seconds=self._timeout_seconds,
        )
        found = {
            (topic.name, it.partition_index): (
                error_of(it.error_code) if it.error_code else it.offset
            )
            for topic in response.topics
            for it in topic.partitions
        }
        if missing := {(it.topic, it.partition) for it in partitions} - found.keys():
            raise InvalidResponse(f"{connection.address}: no offsets of {sorted(missing)}")
        return found

    @property
    def _timeout_seconds(self) -> float:
        return self._cluster.settings.replica_socket_timeout_ms / 1000

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()


def fetch_request(request: SessionRequest, cluster: ClusterView, version: int) -> FetchRequest:
    settings = cluster.settings
    has_state = version >= REPLICA_STATE_SINCE
    return FetchRequest(
        replica_id=-1 if has_state else cluster.node_id,
        replica_state=ReplicaState(replica_id=cluster.node_id, replica_epoch=cluster.broker_epoch)
        if has_state
        else ReplicaState(),
        max_wait_ms=settings.replica_fetch_wait_max_ms,
        min_bytes=settings.replica_fetch_min_bytes,
        max_bytes=settings.replica_fetch_response_max_bytes,
        session_id=request.session_id,
        session_epoch=request.epoch,
        topics=fetch_topics(request.partitions),
        forgotten_topics_data=[
            ForgottenTopic(topic_id=topic_id, partitions=indexes)
            for topic_id, indexes in indexes_by_topic(request.removed).items()
        ],
    )


def fetch_topics(partitions: Mapping[PartitionKey, Requested]) -> list[FetchTopic]:
    by_topic: dict[bytes, list[FetchPartition]] = {}
    for (topic_id, index), requested in partitions.items():
        by_topic.setdefault(topic_id, []).append(
            FetchPartition(
                partition=index,
                current_leader_epoch=requested.leader_epoch,
                fetch_offset=requested.offset,
                last_fetched_epoch=requested.last_fetched_epoch,
                log_start_offset=requested.log_start_offset,
                partition_max_bytes=requested.bytes_max,
            )
        )
    return [FetchTopic(topic_id=topic_id, partitions=it) for topic_id, it in by_topic.items()]


def indexes_by_topic(keys: Iterable[PartitionKey]) -> dict[bytes, list[int]]:
    by_topic: dict[bytes, list[int]] = {}
    for topic_id, index in keys:
        by_topic.setdefault(topic_id, []).append(index)
    return by_topic


def list_offsets_request(
    partitions: Sequence[Asked], timestamp: int, node_id: int
) -> ListOffsetsRequest:
    by_topic: dict[str, list[ListOffsetsPartition]] = {}
    for it in partitions:
        by_topic.setdefault(it.topic, []).append(
            ListOffsetsPartition(
                partition_index=it.partition,
                current_leader_epoch=it.leader_epoch,
                timestamp=timestamp,
            )
        )
    topics = [ListOffsetsTopic(name=name, partitions=it) for name, it in by_topic.items()]
    return ListOffsetsRequest(replica_id=node_id, topics=topics)
