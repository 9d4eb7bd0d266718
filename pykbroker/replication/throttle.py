"""Limits the rate at which this broker copies throttled partitions (KIP-73).

A throttled partition that is not in sync is left out of Fetch requests while the rate is exceeded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.partitions.replication_quota import ReplicationQuota, is_throttled

if TYPE_CHECKING:
    from pykbroker.clock import Clock
    from pykbroker.partitions.partition import Partition
    from pykbroker.replication.cluster_view import ClusterView
    from pykbroker.replication.followed_partition import FollowedPartition


class FollowerThrottle:
    """`follower.replication.throttled.rate`, for all fetchers of this broker together."""

    def __init__(self, cluster: ClusterView, clock: Clock) -> None:
        settings = cluster.settings
        self._cluster = cluster
        self._clock = clock
        self._quota = ReplicationQuota(
            windows=settings.replication_quota_window_num,
            window_seconds=settings.replication_quota_window_size_seconds,
        )

    def applies_to(self, partition: Partition) -> bool:
        replicas = partition.settings.follower_replication_throttled_replicas
        return bool(replicas) and is_throttled(replicas, partition.index, self._cluster.node_id)

    def holds_back(self, followed: FollowedPartition) -> bool:
        return (
            self.applies_to(followed.partition)
            and not followed.state.is_in_sync
            and self._quota.is_exceeded(
                self._cluster.settings.follower_replication_throttled_rate,
                self._clock.monotonic(),
            )
        )

    def record(self, partition: Partition, count: int) -> None:
        if self.applies_to(partition):
            self._quota.record(count, self._clock.monotonic())
