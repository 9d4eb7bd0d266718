"""All fetchers of this broker: assigns each partition that it follows to one of them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pykbroker.client.connection_options import ConnectionOptions
from pykbroker.metadata.image import NO_LEADER
from pykbroker.replication.fetcher_assignment import FetcherId, fetcher_of
from pykbroker.replication.replica_fetcher import ReplicaFetcher
from pykbroker.replication.throttle import FollowerThrottle

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pykbroker.client.connection_options import Connect
    from pykbroker.clock import Clock
    from pykbroker.partitions.partition import Partition
    from pykbroker.partitions.partition_registry import Partitions
    from pykbroker.replication.cluster_view import ClusterView
    from pykbroker.replication.follower_session import PartitionKey
    from pykbroker.settings import Settings


class ReplicaFetchers:
    """An observer of `Partitions`; bounded by the leaders of its partitions."""

    def __init__(
        self, cluster: ClusterView, partitions: Partitions, *, clock: Clock, connect: Connect
    ) -> None:
        self._cluster = cluster
        self._partitions = partitions
        self._clock = clock
        self._connect = connect
        self._throttle = FollowerThrottle(cluster, clock)
        self._fetchers: dict[FetcherId, ReplicaFetcher] = {}
        self._closing: set[asyncio.Task[None]] = set()
        """Fetchers without partitions; bounded like `_fetchers`, whose requests they end."""
        self._assigned: dict[PartitionKey, FetcherId] = {}
        self._count = cluster.settings.num_replica_fetchers
        self._is_closed = False

    def leadership_changed(self, partition: Partition) -> None:
        """Follows the present leader of a partition, or none if this broker leads it."""
        key = partition.topic_id, partition.index
        leader = partition.leadership.leader
        target = None
        if leader not in (NO_LEADER, self._cluster.node_id) and not self._is_closed:
            target = fetcher_of(
                partition.topic, partition.index, leader=leader, fetchers=self._count
            )
        assigned = self._assigned.get(key)
        if assigned is not None and assigned != target:
            self._unassign(key)
        if target is not None:
            self._assigned[key] = target
            self._fetcher(target).follow(partition)

    def removed(self, partition: Partition) -> None:
        self._unassign((partition.topic_id, partition.index))

    def configure(self, settings: Settings) -> None:
        """Assigns all partitions again if `num.replica.fetchers` has changed."""
        if settings.num_replica_fetchers != self._count:
            self._count = settings.num_replica_fetchers
            for partition in self._partitions:
                self.leadership_changed(partition)

    @property
    def fetchers(self) -> list[ReplicaFetcher]:
        return list(self._fetchers.values())

    def _unassign(self, key: PartitionKey) -> None:
        assigned = self._assigned.pop(key, None)
        if assigned is None:
            return
        fetcher = self._fetchers[assigned]
        fetcher.unfollow(key)
        if fetcher.is_empty:
            del self._fetchers[assigned]
            closing = asyncio.get_running_loop().create_task(fetcher.close())
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)

    def _fetcher(self, fetcher_id: FetcherId) -> ReplicaFetcher:
        fetcher = self._fetchers.get(fetcher_id)
        if fetcher is None:
            fetcher = self._fetchers[fetcher_id] = ReplicaFetcher(
                fetcher_id,
                self._cluster,
                ConnectionOptions(
                    client_id=f"broker-{self._cluster.node_id}-fetcher-{fetcher_id.number}",
                    timeout_seconds=self._cluster.settings.replica_socket_timeout_ms / 1000,
                    connect=self._connect,
                    clock=self._clock,
                ),
                self._throttle,
                self._save_offsets,
            )
        return fetcher

    async def _save_offsets(self, truncated: Sequence[Partition]) -> None:
        """Writes checkpoints that no longer contain offsets after the ends of these logs."""
        directory = self._partitions.directory
        for partition in truncated:
            name, end_offset = (partition.topic, partition.index), partition.log.log_end_offset
            if directory.first_dirty_offset(name) > end_offset:
                directory.set_first_dirty_offset(name, end_offset)
        known = directory.offset_snapshot(self._partitions.high_watermarks())
        await asyncio.to_thread(directory.save_offsets, known)

    async def close(self) -> None:
        self._is_closed = True
        self._assigned.clear()
        for fetcher in self.fetchers:
            await fetcher.close()
        self._fetchers.clear()
        await asyncio.gather(*self._closing)
