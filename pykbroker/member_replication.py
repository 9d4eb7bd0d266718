"""The replication of a broker of a cluster: follows leaders, and reports to the controller."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from pykbroker.membership.directory_assignments import DirectoryAssignments
from pykbroker.replication.cluster_view import ClusterView
from pykbroker.replication.in_sync_proposals import InSyncProposals
from pykbroker.replication.lag_check import check_lag
from pykbroker.replication.replica_fetchers import ReplicaFetchers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pykbroker.controller_access import ControllerChannel
    from pykbroker.environment import Environment
    from pykbroker.membership.lifecycle import Lifecycle
    from pykbroker.membership.membership import Membership
    from pykbroker.metadata.image import ClusterImage, TopicImage
    from pykbroker.partitions.partition_registry import Partitions
    from pykbroker.settings import CurrentSettings, Settings


class MemberReplication:
    """Connects the partitions of this broker with their other replicas, until it is closed."""

    def __init__(
        self,
        partitions: Partitions,
        membership: Membership,
        channel: ControllerChannel,
        *,
        environment: Environment,
        current_settings: CurrentSettings,
        current_image: Callable[[], ClusterImage],
    ) -> None:
        node_id, clock = partitions.node_id, environment.clock
        self._current_image = current_image
        view = ClusterView(
            node_id=node_id,
            current_settings=lambda: current_settings.value,
            current_image=current_image,
            current_broker_epoch=lambda: membership.broker_epoch,
        )
        self.fetchers = ReplicaFetchers(
            view, partitions, clock=clock, connect=environment.network.connect
        )
        partitions.observer = self.fetchers
        self._assignments = DirectoryAssignments(
            channel,
            clock,
            broker_id=node_id,
            broker_epoch=lambda: membership.broker_epoch,
            directory_id=partitions.directory.directory_id,
        )
        self._context = partitions.leader_context
        self._context.brokers = current_image().brokers
        self._proposals = InSyncProposals(channel, self._context, node_id=node_id)
        self._context.propose = self._proposals.propose
        self.configure(current_settings.value)
        current_settings.subscribe("replication", self.configure)
        membership.subscribe(self._follow_session)
        checking = check_lag(partitions, self._context)
        self._checking_lag = asyncio.get_running_loop().create_task(checking)

    def configure(self, settings: Settings) -> None:
        self._context.lag_seconds_max = settings.replica_lag_time_max_ms / 1000
        self.fetchers.configure(settings)

    def _follow_session(self, state: Lifecycle) -> None:
        self._context.own_epoch = state.broker_epoch
        self._context.session_ends_at = state.session_ends_at

    async def check_directories(self, topics: Iterable[TopicImage] | None = None) -> None:
        """Reports replicas whose directory differs from the metadata; None checks all topics."""
        image = self._current_image()
        await self._assignments.check(
            image, list(image.topics.values() if topics is None else topics)
        )

    async def close(self) -> None:
        self._checking_lag.cancel()
        with suppress(asyncio.CancelledError):
            await self._checking_lag
        await self._proposals.close()
        await self.fetchers.close()
        await self._assignments.close()
