"""The control plane of a broker whose controllers are other processes.

The metadata follower reads the metadata log, the membership sends registration and heartbeats, and
the remote controller sends commands. All of them use the same view of the quorum.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from pykbroker.client.connection_options import ConnectionOptions
from pykbroker.control_plane import CannotJoin
from pykbroker.controller_access import ControllerUnavailable
from pykbroker.coordinators.remote_transactions import RemoteTransactions
from pykbroker.member_disk import MemberDisk
from pykbroker.member_replication import MemberReplication
from pykbroker.membership.controller_channel import QuorumChannel
from pykbroker.membership.controller_quorum import ControllerQuorum, quorum_options
from pykbroker.membership.features import (
    CORDONED_DIRECTORIES_LEVEL,
    SERVED_BY_A_MEMBER,
    claimed_features,
    refuse_cluster,
)
from pykbroker.membership.lifecycle import UNKNOWN_EPOCH, Metadata, Timing
from pykbroker.membership.membership import Membership, RegistrationRefused
from pykbroker.membership.metadata_follower import CannotFollowMetadata, MetadataFollower
from pykbroker.membership.quorum_view import view_of_settings
from pykbroker.membership.remote_controller import RemoteController
from pykbroker.membership.request_forwarding import EnvelopeForwarding
from pykbroker.metadata.features import METADATA_VERSION
from pykbroker.partitions.opening import open_partitions
from pykbroker.replication.cluster_view import inter_broker_listener
from pykbroker.wiring import cluster_id_in
from pykbroker_protocol.messages.broker_registration import BrokerRegistrationRequest, Listener
from pykbroker_protocol.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from pykbroker_storage.directory_files import UNKNOWN_BROKER_EPOCH

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pykbroker.apis.offer import Offer
    from pykbroker.environment import Environment
    from pykbroker.membership.applied_metadata import Deliver
    from pykbroker.metadata.image import ClusterImage, ImageDelta
    from pykbroker.partitions.partition_registry import Partitions
    from pykbroker.settings import CurrentSettings, Settings
    from pykbroker.settings import Listener as Address
    from pykbroker_storage.log_directory import LogDirectory

CONTROLLERS: Final = 2
"""Endpoint type of a DescribeCluster that a controller answers (KIP-919)."""

PLAINTEXT: Final = 0
"""Number of the security protocol in a registration."""

EVERY_DIRECTORY: Final = "*"

CLUSTER_ID_RETRY_SECONDS: Final = 1.0

logger = logging.getLogger(__name__)


class ClusterMember:
    """Joins and leaves a cluster (`control_plane.ControlPlane`)."""

    controller: RemoteController

    def __init__(
        self,
        settings: Settings,
        environment: Environment,
        cluster_id: str | None,
        on_failure: Callable[[str], None],
    ) -> None:
        """`on_failure` receives the reason why this broker can no longer be a member."""
        self._settings = settings
        self._environment = environment
        self._current_settings: Callable[[], Settings] = lambda: settings
        self._stated_cluster_id = cluster_id
        options = quorum_options(
            settings,
            connect=environment.network.connect,
            clock=environment.clock,
            randomness=environment.randomness,
        )
        self._quorum = ControllerQuorum(view_of_settings(settings), options, cluster_id=cluster_id)
        self.channel = QuorumChannel(self._quorum)
        self._heartbeats = QuorumChannel(self._quorum)
        self._follower: MetadataFollower | None = None
        self._membership: Membership | None = None
        self._forwarding_channel = QuorumChannel(self._quorum)
        self.forwarding = EnvelopeForwarding(self._forwarding_channel, environment.clock)
        self._replication_channel = QuorumChannel(self._quorum)
        self._replication: MemberReplication | None = None
        self._transactions: RemoteTransactions | None = None
        self._disk: MemberDisk | None = None
        self._clean_epoch = UNKNOWN_BROKER_EPOCH
        self._on_failure = on_failure
        self._watching: asyncio.Task[None] | None = None

    @property
    def broker_epoch(self) -> int:
        joined = UNKNOWN_EPOCH if self._membership is None else self._membership.broker_epoch
        return self._clean_epoch if joined == UNKNOWN_EPOCH else joined

    @property
    def has_failed_directory(self) -> bool:
        return self._disk is not None and self._disk.has_failed

    @property
    def membership(self) -> Membership:
        assert self._membership is not None, "the broker has not joined"
        return self._membership

    async def cluster_id(self, directory: str) -> str:
        """Returns the stated id, the id in `meta.properties`, or that of the controllers."""
        known = self._stated_cluster_id or cluster_id_in(directory)
        if known is None:
            known = await self._cluster_id_of_controllers()
        self._quorum.cluster_id = known
        return known

    async def _cluster_id_of_controllers(self) -> str:
        request = DescribeClusterRequest(
            include_cluster_authorized_operations=False, endpoint_type=CONTROLLERS
        )
        while True:
            try:
                response = await self.channel.request(request, DescribeClusterResponse)
            except ControllerUnavailable as failure:
                logger.warning("controllers: cluster id is not known yet (%s); retrying", failure)
                await self._environment.clock.sleep(CLUSTER_ID_RETRY_SECONDS)
                continue
            if response.error_code:
                text = f"controllers refuse to return their cluster id: {response.error_message}"
                raise CannotJoin(text)
            return response.cluster_id

    async def join(self, directory: LogDirectory, addresses: Sequence[Address]) -> None:
        self._clean_epoch = directory.previous_broker_epoch
        try:
            self._follower = follower = await MetadataFollower.open(
                directory,
                self._quorum,
                node_id=self._settings.node_id,
                cluster_id=await self.cluster_id(directory.path),
                fetch_timeout_seconds=self._settings.controller_quorum_fetch_timeout_ms / 1000,
            )
            await follower.caught_up()
            self._refuse_cluster(follower.image)
            self._membership = membership = self._new_membership(directory, addresses, follower)
            membership.start()
            await follower.applied(await membership.until_registered())
            self.controller = RemoteController(
                self.channel,
                broker_id=self._settings.node_id,
                broker_epoch=lambda: membership.broker_epoch,
            )
            watching = self._watch(follower, membership)
            self._watching = asyncio.get_running_loop().create_task(watching)
        except OSError as failure:
            raise CannotJoin(f"{directory.path}: {failure}") from failure
        except (CannotFollowMetadata, RegistrationRefused) as failure:
            raise CannotJoin(str(failure)) from failure

    def _refuse_cluster(self, image: ClusterImage) -> None:
        refusal = refuse_cluster(image.features, self._quorum.view.addresses)
        if refusal is not None:
            raise CannotJoin(refusal)
        level = image.features.get(METADATA_VERSION, 0)
        if self._settings.cordoned_log_dirs and level < CORDONED_DIRECTORIES_LEVEL:
            raise CannotJoin(
                f"cordoned.log.dirs (--guest) requires metadata.version "
                f"{CORDONED_DIRECTORIES_LEVEL} (4.3-IV0), the cluster has {level}"
            )

    def _new_membership(
        self, directory: LogDirectory, addresses: Sequence[Address], follower: MetadataFollower
    ) -> Membership:
        settings, node_id = self._settings, self._settings.node_id
        registration = BrokerRegistrationRequest(
            broker_id=node_id,
            cluster_id=follower.image.cluster_id,
            incarnation_id=self._environment.randomness.uuid_bytes(),
            listeners=[
                Listener(name=it.name, host=it.host, port=it.port, security_protocol=PLAINTEXT)
                for it in addresses
            ],
            features=claimed_features(follower.image.features),
            rack=settings.broker_rack,
            log_dirs=(directory.directory_id,),
            previous_broker_epoch=directory.previous_broker_epoch,
        )

        def metadata() -> Metadata:
            own = follower.image.brokers.get(node_id)
            epoch = UNKNOWN_EPOCH if own is None else own.epoch
            return Metadata(follower.offset, epoch, follower.complete_at)

        def cordoned() -> list[bytes] | None:
            level = follower.image.features.get(METADATA_VERSION, 0)
            if level < CORDONED_DIRECTORIES_LEVEL:
                return None
            chosen = {*self._current_settings().cordoned_log_dirs}
            is_cordoned = {EVERY_DIRECTORY, *settings.log_dirs} & chosen
            return [directory.directory_id] if is_cordoned else []

        return Membership(
            self._heartbeats,
            registration,
            metadata=metadata,
            timing=Timing(
                session=settings.broker_session_timeout_ms / 1000,
                heartbeat=settings.broker_heartbeat_interval_ms / 1000,
                initial_registration=settings.initial_broker_registration_timeout_ms / 1000,
            ),
            clock=self._environment.clock,
            cordoned=cordoned,
        )

    def remote_transactions(self, current_image: Callable[[], ClusterImage]) -> RemoteTransactions:
        environment, settings = self._environment, self._settings
        options = ConnectionOptions(
            client_id=f"broker-{settings.node_id}",
            connect=environment.network.connect,
            clock=environment.clock,
            randomness=environment.randomness,
        )
        self._transactions = RemoteTransactions(
            current_image, inter_broker_listener(settings), options
        )
        return self._transactions

    def offer(self, offer: Offer) -> Offer:
        return offer._replace(features=SERVED_BY_A_MEMBER)

    def subscribe(self, deliver: Deliver) -> ClusterImage:
        assert self._follower is not None, "the broker has not joined"

        async def deliver_and_check(delta: ImageDelta) -> None:
            delivered = deliver(delta)
            if delivered is not None:
                await delivered
            if self._replication is not None:
                await self._replication.check_directories(delta.topics.values())

        return self._follower.subscribe(deliver_and_check)

    def attach(
        self,
        partitions: Partitions,
        current_settings: CurrentSettings,
        current_image: Callable[[], ClusterImage],
    ) -> None:
        self._current_settings = lambda: current_settings.value
        self._replication = MemberReplication(
            partitions,
            self.membership,
            self._replication_channel,
            environment=self._environment,
            current_settings=current_settings,
            current_image=current_image,
        )
        self._disk = MemberDisk(
            partitions, self.membership, self._environment.clock, self._on_failure
        )
        assert self._follower is not None, "the broker has not joined"
        self._follower.on_append_error = self._disk.note_metadata_error

    async def open_partitions(self, partitions: Partitions, image: ClusterImage) -> None:
        await open_partitions(partitions, image)

    async def serve(self) -> None:
        if self._replication is not None:
            await self._replication.check_directories()
        assert self._watching is not None, "the broker has not joined"
        unfenced = asyncio.ensure_future(self.membership.until_unfenced())
        try:
            await asyncio.wait((unfenced, self._watching), return_when=asyncio.FIRST_COMPLETED)
            if unfenced.done():
                unfenced.result()
        except RegistrationRefused as failure:
            raise CannotJoin(str(failure)) from failure
        finally:
            unfenced.cancel()

    async def _watch(self, follower: MetadataFollower, membership: Membership) -> None:
        """Reports the first failure of the running broker."""
        unreadable = asyncio.ensure_future(follower.until_failed())
        unregistered = asyncio.ensure_future(membership.until_failed())
        try:
            await asyncio.wait((unreadable, unregistered), return_when=asyncio.FIRST_COMPLETED)
            if unreadable.done():
                failed = unreadable.result()
                if not failed.follows:  # it would not learn of other leaders
                    membership.step_aside()
                self._on_failure(failed.reason)
            else:
                self._on_failure(str(unregistered.result()))
        finally:
            unreadable.cancel()
            unregistered.cancel()

    async def leave(self) -> None:
        if self._settings.controlled_shutdown_enable:
            await self.membership.leave()

    async def detach(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait([self._watching])
        if self._follower is not None:
            await self._follower.close()
        if self._disk is not None:
            await self._disk.close()
        if self._replication is not None:
            await self._replication.close()
            self._replication = None

    async def close(self) -> None:
        await self.detach()
        await self.forwarding.close()
        if self._membership is not None:
            await self._membership.close()
        await self._heartbeats.close()
        if self._transactions is not None:
            await self._transactions.close()
        await self._forwarding_channel.close()
        await self._replication_channel.close()
        await self.channel.close()
        await self._quorum.close()
