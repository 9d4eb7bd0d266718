"""Reads brokers, quorum and partitions of a cluster; a broker that does not respond is skipped.

All requests have a time limit. DescribeQuorum, which brokers forward to the controller, and the
requests to each broker have connections of their own: a broker answers in order, so a request that
waits for the controller would delay those behind it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, TypeVar

from pykbroker.address import Address
from pykbroker.cli.cluster.api_versions import finalized_features
from pykbroker.cli.cluster.state import (
    BrokerState,
    LogDirectory,
    Members,
    QuorumReplica,
    QuorumState,
)
from pykbroker.client.broker_connection import BrokerConnection
from pykbroker.client.errors import ClientError, TimedOut, error_of, only, raise_if_error
from pykbroker_protocol.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from pykbroker_protocol.messages.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from pykbroker_protocol.messages.describe_quorum import (
    DescribeQuorumPartitionData,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    PartitionData,
    TopicData,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from pykbroker.client.cluster_client import ClusterClient
    from pykbroker_protocol.messages.describe_cluster import DescribeClusterBroker
    from pykbroker_protocol.messages.describe_log_dirs import DescribeLogDirsResult
    from pykbroker_protocol.messages.describe_quorum import Node, ReplicaState

Result = TypeVar("Result")

METADATA_TOPIC: Final = "__cluster_metadata"
FENCED_SINCE_VERSION: Final = 2
CORDONED_SINCE_VERSION: Final = 5
BROKER_TIMEOUT_SECONDS: Final = 3.0
"""Bounds the requests to one broker, so that a paused broker delays the output only this long."""
BROKERS_AT_ONCE_MAX: Final = 32


async def read_members(client: ClusterClient) -> Members:
    broker = await client.broker()
    version = broker.version_of(DescribeClusterRequest)
    request = DescribeClusterRequest(
        include_cluster_authorized_operations=False,
        include_fenced_brokers=version >= FENCED_SINCE_VERSION,
    )
    cluster = await broker.request(request, DescribeClusterResponse)
    raise_if_error(cluster.error_code, cluster.error_message)
    registered = sorted(cluster.brokers, key=lambda it: it.broker_id)
    quorum, brokers = await asyncio.gather(
        quorum_or_error(client, broker.address), read_brokers(client, registered)
    )
    state = quorum if isinstance(quorum, QuorumState) else None
    return Members(
        cluster_id=cluster.cluster_id,
        controller_id=cluster.controller_id if state is None else state.leader,
        features=finalized_features(broker.offered),
        brokers={it.broker_id: it for it in brokers},
        quorum=state,
        quorum_error=quorum if isinstance(quorum, str) else None,
    )


async def read_brokers(
    client: ClusterClient, registered: Sequence[DescribeClusterBroker]
) -> list[BrokerState]:
    at_once = asyncio.Semaphore(BROKERS_AT_ONCE_MAX)
    return await asyncio.gather(*(read_broker(client, it, at_once) for it in registered))


async def read_broker(
    client: ClusterClient, broker: DescribeClusterBroker, at_once: asyncio.Semaphore
) -> BrokerState:
    address = Address(broker.host, broker.port)
    directories: Sequence[LogDirectory] = ()
    error = None
    try:
        async with at_once:
            directories = await at_broker(client, address, read_log_directories)
    except ClientError as failure:
        error = str(failure).removeprefix(f"{address} ").removeprefix(f"{address}: ")
    return BrokerState(
        broker_id=broker.broker_id,
        address=address,
        rack=broker.rack,
        is_fenced=broker.is_fenced,
        log_directories=directories,
        error=error,
    )


async def at_broker(
    client: ClusterClient,
    address: Address,
    request: Callable[[BrokerConnection], Awaitable[Result]],
) -> Result:
    """Connects to a broker, sends requests and disconnects, all within a time limit."""
    seconds = min(client.options.timeout_seconds, BROKER_TIMEOUT_SECONDS)
    try:
        async with asyncio.timeout(seconds):
            connection = await BrokerConnection.open(address, client.options)
            try:
                return await request(connection)
            finally:
                await connection.close()
    except TimeoutError:
        raise TimedOut(f"{address} did not respond in {seconds:g} s") from None


async def read_log_directories(broker: BrokerConnection) -> list[LogDirectory]:
    version = broker.version_of(DescribeLogDirsRequest)
    response = await broker.request(DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse)
    raise_if_error(response.error_code)
    return [log_directory(it, version) for it in response.results]


def log_directory(found: DescribeLogDirsResult, version: int) -> LogDirectory:
    return LogDirectory(
        path=found.log_dir,
        size=sum(it.partition_size for topic in found.topics for it in topic.partitions),
        usable_bytes=found.usable_bytes if found.usable_bytes >= 0 else None,
        is_cordoned=found.is_cordoned if version >= CORDONED_SINCE_VERSION else None,
        error=error_of(found.error_code).name if found.error_code else None,
    )


async def quorum_or_error(client: ClusterClient, address: Address) -> QuorumState | str:
    """Returns the quorum, or the reason why it is unknown."""
    try:
        return await at_broker(client, address, read_quorum)
    except ClientError as failure:
        return str(failure)


async def read_quorum(broker: BrokerConnection) -> QuorumState:
    requested = TopicData(topic_name=METADATA_TOPIC, partitions=[PartitionData(partition_index=0)])
    response = await broker.request(
        DescribeQuorumRequest(topics=[requested]), DescribeQuorumResponse
    )
    raise_if_error(response.error_code, response.error_message)
    topic = only(response.topics, "topics")
    found = only(topic.partitions, "partitions")
    raise_if_error(found.error_code, found.error_message)
    return quorum_state(found, response.nodes)


def quorum_state(found: DescribeQuorumPartitionData, nodes: Sequence[Node]) -> QuorumState:
    """Computes lags and ages relative to the leader, whose own timestamps are its current time."""
    addresses = {
        node.node_id: str(Address(listener.host, listener.port))
        for node in nodes
        for listener in node.listeners
    }
    leaders = [it for it in found.current_voters if it.replica_id == found.leader_id]
    end = max((it.log_end_offset for it in leaders), default=found.high_watermark)
    now_ms = max((it.last_fetch_timestamp for it in leaders), default=-1)

    def replica(it: ReplicaState) -> QuorumReplica:
        return QuorumReplica(
            replica_id=it.replica_id,
            address=addresses.get(it.replica_id),
            log_end_offset=it.log_end_offset,
            lag=max(0, end - it.log_end_offset),
            last_fetch_age_ms=age_ms(it.last_fetch_timestamp, now_ms),
            last_caught_up_age_ms=age_ms(it.last_caught_up_timestamp, now_ms),
        )

    return QuorumState(
        leader=found.leader_id,
        epoch=found.leader_epoch,
        high_watermark=found.high_watermark,
        voters=tuple(map(replica, found.current_voters)),
        observers=tuple(map(replica, found.observers)),
    )


def age_ms(timestamp: int, now_ms: int) -> int | None:
    return max(0, now_ms - timestamp) if timestamp >= 0 and now_ms >= 0 else None
