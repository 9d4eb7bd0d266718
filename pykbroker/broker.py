"""The composition root: the parts of a broker, and the order in which they start and stop.

listeners ── transport ── apis ─┬─ partitions, coordinators ── logs on disk
                                └─ control plane: own controller, or controllers of a cluster
                                       │
          committed deltas ────────────┴──> metadata applier ──> partitions, coordinators, …
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Self

from pykbroker.apis.dispatch import Dispatcher
from pykbroker.apis.fetch_sessions import FetchSessions
from pykbroker.apis.node import Node
from pykbroker.apis.producer_ids import ProducerIds
from pykbroker.control_plane import CannotJoin
from pykbroker.controller_access import NewTopic
from pykbroker.coordinators.group_coordinator import GroupCoordinator
from pykbroker.coordinators.topics_of_cluster import TopicsOfCluster
from pykbroker.coordinators.transaction_coordinator import TransactionCoordinator
from pykbroker.coordinators.transaction_markers import MarkerWriter
from pykbroker.descriptors import open_file_limit, shares_of
from pykbroker.environment import Environment
from pykbroker.generation import Generation
from pykbroker.metadata_applier import MetadataApplier
from pykbroker.metadata_log.metadata_log import METADATA_PARTITION
from pykbroker.own_controller import OwnController
from pykbroker.partitions.partition_registry import Partitions, log_configuration
from pykbroker.partitions.upkeep import Upkeep
from pykbroker.reconciler import Reconciler
from pykbroker.settings import (
    CurrentSettings,
    broker_listeners,
    is_own_controller,
    parse_listener,
)
from pykbroker.settings import Listener as Address
from pykbroker.transport.busy_polling import BusyPolling
from pykbroker.transport.listener import CannotListen, Listener
from pykbroker.transport.socket_server import SocketServer
from pykbroker.wiring import (
    advertised,
    connection_limits,
    consumer_group_settings,
    group_settings,
    refuse_other_hosts,
    transaction_settings,
)
from pykbroker_protocol.errors import ErrorCode, Refusal
from pykbroker_storage.log_directory import LogDirectory, LogDirectoryError
from pykbroker_storage.mapped_file import OpenFiles

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pykbroker.control_plane import ControlPlane
    from pykbroker.controller_access import ControllerAccess
    from pykbroker.metadata.image import ClusterImage
    from pykbroker.settings import Settings

logger = logging.getLogger(__name__)

STOP_SECONDS_MAX = 5.0


class CannotStart(Exception):
    """The broker cannot start; the message is one line for the operator."""


class Broker:
    """A running node: a broker with its own controller, or one of a cluster."""

    def __init__(
        self, settings: Settings, environment: Environment, cluster_id: str | None = None
    ) -> None:
        self.current_settings = CurrentSettings(settings)
        self.environment = environment
        self.clock = environment.clock
        self.generation = Generation()
        self.addresses: list[Address] = []
        self.bound_port = 0
        self._exit_stack = contextlib.AsyncExitStack()
        self.failure: str | None = None
        """Why this process must stop, after an error that the broker does not survive."""
        self._failed = asyncio.Event()
        self._opened_partitions: Partitions | None = None
        self._is_crashing = False
        self.reconciler = Reconciler(environment.clock)
        self.applier = MetadataApplier(self.current_settings, self.generation, self.reconciler)
        self.control_plane = self._new_control_plane(cluster_id)

    directory: LogDirectory
    controller: ControllerAccess
    partitions: Partitions
    node: Node
    groups: GroupCoordinator
    transactions: TransactionCoordinator
    socket_server: SocketServer

    @classmethod
    async def start(
        cls,
        settings: Settings,
        environment: Environment | None = None,
        *,
        cluster_id: str | None = None,
    ) -> Self:
        """Starts a broker; the default environment is that of the operating system.

        Without `cluster_id`, a broker accepts the cluster of its directory and its controllers.
        """
        broker = cls(settings, environment or Environment(), cluster_id)
        await broker.begin()
        return broker

    async def begin(self) -> None:
        """Starts serving. Raises CannotStart after closing everything that was opened."""
        try:
            await self.open()
        except (CannotListen, LogDirectoryError, CannotJoin) as error:
            await self.stop()
            raise CannotStart(str(error)) from error
        except BaseException:
            await self.stop()
            raise

    async def open(self) -> None:
        refusal = refuse_other_hosts(self.settings)
        if refusal is not None:
            raise CannotStart(refusal)
        listeners = await self.bind_listeners()
        await self.open_directory()
        await self.join_cluster()
        await self.open_partitions()
        await self.partitions.until_flushed()
        self.open_coordinators()
        self.node = Node(
            node_id=self.settings.node_id,
            settings=self.settings,
            clock=self.clock,
            controller=self.controller,
            forward=self.control_plane.forwarding,
            image=self.image,
            partitions=self.partitions,
            fetch_sessions=FetchSessions(
                self.settings.max_incremental_fetch_session_cache_slots,
                lambda: self.environment.randomness.below(2**31 - 1) + 1,
            ),
            producer_ids=ProducerIds(self.controller),
            groups=self.groups,
            transactions=self.transactions,
            randomness=self.environment.randomness,
            generation=self.generation,
            offer=self.control_plane.offer(self.environment.offer),
        )
        self.current_settings.subscribe("request handlers", self.node.configure)
        self.current_settings.subscribe("fast paths", lambda _: self.generation.advance())
        self.start_upkeep()
        self.open_socket_server(listeners)
        self._exit_stack.push_async_callback(self.leave_cluster)
        await self.control_plane.serve()
        if self.failure is not None:
            raise CannotStart(self.failure)

    def _new_control_plane(self, cluster_id: str | None) -> ControlPlane:
        if is_own_controller(self.settings):
            return OwnController(self.settings, self.environment, cluster_id)
        from pykbroker.cluster_member import ClusterMember  # noqa: PLC0415  # not for single nodes

        return ClusterMember(self.settings, self.environment, cluster_id, self.fail)

    # --- parts, in start order

    async def bind_listeners(self) -> list[Listener]:
        given = tuple(parse_listener(it) for it in self.settings.advertised_listeners or ())
        limits = connection_limits(self.settings)
        listeners = []
        for requested in broker_listeners(self.settings):
            listener = await self.environment.network.listen(
                requested.name, requested.host, requested.port, limits
            )
            self._exit_stack.callback(listener.close)
            self.bound_port = self.bound_port or listener.address.port
            listeners.append(listener)
            bound = Address(requested.name, requested.host, listener.address.port)
            self.addresses.append(advertised(bound, given))
        return listeners

    async def open_directory(self) -> None:
        if len(self.settings.log_dirs) != 1:
            count = len(self.settings.log_dirs)
            raise CannotStart(f"log.dirs: {count} directories given, only one is supported")
        (path,) = self.settings.log_dirs
        filesystem, randomness = self.environment.filesystem, self.environment.randomness
        open_files = OpenFiles(filesystem, shares_of(open_file_limit()).log_files)
        filesystem.release_descriptor = open_files.release_least_recent
        self.directory = LogDirectory.open(
            path,
            cluster_id=await self.control_plane.cluster_id(path),
            node_id=self.settings.node_id,
            new_directory_id=randomness.uuid_bytes(),
            configuration=log_configuration(self.settings.topic_defaults),
            filesystem=filesystem,
            open_files=open_files,
        )
        self._exit_stack.callback(self.close_directory)

    def close_directory(self) -> None:
        partitions = self._opened_partitions
        try:
            if self._is_crashing or self.control_plane.has_failed_directory:
                self.directory.abandon()
            else:
                self.directory.close(
                    {} if partitions is None else partitions.high_watermarks(),
                    now_ms=self.clock.now_ms(),
                    broker_epoch=self.control_plane.broker_epoch,
                    # A member recovers replicated logs by their topics, once it has the metadata.
                    opens_all=is_own_controller(self.settings),
                )
        finally:
            for partition in partitions or ():
                partition.end_waits()  # waiting fetches read again and find the log closed

    async def join_cluster(self) -> None:
        self._exit_stack.push_async_callback(self.control_plane.close)
        await self.control_plane.join(self.directory, self.addresses)
        self.controller = self.control_plane.controller

    async def leave_cluster(self) -> None:
        if not self._is_crashing:
            await self.control_plane.leave()
        await self.control_plane.detach()

    async def open_partitions(self) -> None:
        self.applier.start_with(self.control_plane.subscribe(self.applier.apply_delta))
        self._exit_stack.push_async_callback(self.reconciler.close)
        self.partitions = Partitions(
            node_id=self.settings.node_id,
            directory=self.directory,
            settings=self.settings,
            clock=self.clock,
            generation=self.generation,
            on_late_log=self.applier.load_coordinators,
        )
        self._exit_stack.push_async_callback(self.partitions.flush_threads.end)
        self._exit_stack.push_async_callback(self.partitions.off_loop.close)
        self._opened_partitions = self.applier.partitions = self.partitions
        self.current_settings.subscribe(
            "partitions", lambda it: self.partitions.change_defaults(it, self.image)
        )
        self._exit_stack.push_async_callback(self.control_plane.detach)
        self.control_plane.attach(self.partitions, self.current_settings, lambda: self.image)
        self.partitions.rename_strays(self.image, METADATA_PARTITION)
        await self.control_plane.open_partitions(self.partitions, self.image)

    def open_coordinators(self) -> None:
        topics = self.applier.topics = TopicsOfCluster(lambda: self.image)
        self.groups = GroupCoordinator(
            self.partitions,
            self.clock,
            topics,
            settings=group_settings(self.settings),
            consumer_settings=consumer_group_settings(self.settings, self.image.configurations),
            observer=self.environment.decision_observer,
        )
        self._exit_stack.push_async_callback(self.groups.close)
        self.current_settings.subscribe("consumer groups", self.applier.configure_groups)
        self.transactions = TransactionCoordinator(
            self.partitions,
            self.clock,
            MarkerWriter(self.partitions, self.groups, lambda: self.image, self.clock),
            settings=transaction_settings(self.settings),
            verifies_partitions=self.settings.transaction_partition_verification_enable,
            observer=self.environment.decision_observer,
        )
        self.transactions.reach_others(self.control_plane.remote_transactions(lambda: self.image))
        self._exit_stack.push_async_callback(self.transactions.close)
        self.current_settings.subscribe("transactions", self.configure_transactions)
        self.applier.groups, self.applier.transactions = self.groups, self.transactions
        self.applier.load_coordinators()
        self.applier.open()

    def start_upkeep(self) -> None:
        upkeep = Upkeep(
            self.partitions,
            self.environment.new_compaction_worker,
            directory_lost=self.note_lost_directory,
        )
        tasks = upkeep.start()
        self._exit_stack.push_async_callback(end_tasks, tasks)

    def open_socket_server(self, listeners: Iterable[Listener]) -> None:
        self.socket_server = SocketServer(
            Dispatcher(self.node, self.environment.request_observer).serve,
            connection_limits(self.settings),
            busy_polling=BusyPolling() if self.environment.busy_polls else None,
            work_clock=self.clock.monotonic,
        )
        self._exit_stack.push_async_callback(self.socket_server.stop, STOP_SECONDS_MAX)
        self.current_settings.subscribe("connections", self.configure_connections)
        for listener in listeners:
            self.socket_server.open(listener)

    # --- changes of settings, and failures

    def configure_transactions(self, settings: Settings) -> None:
        self.transactions.verifies_partitions = settings.transaction_partition_verification_enable

    def configure_connections(self, settings: Settings) -> None:
        self.socket_server.limits = connection_limits(settings)

    def note_lost_directory(self) -> None:
        if self.failure is None:
            logger.critical(
                "%s: data directory was removed, replaced or locked by another process; "
                "records acknowledged in the last second can be lost; restore the directory and "
                "restart the broker",
                self.directory.path,
            )
            self.fail(
                f"data directory {self.directory.path} was removed, replaced or locked by another "
                "process; stopped uncleanly"
            )

    def fail(self, reason: str) -> None:
        """Requests a stop of the process. The first reason is kept."""
        if self.failure is None:
            self.failure = reason
            self._failed.set()

    async def until_failed(self) -> str:
        """Returns the reason when the process must stop."""
        await self._failed.wait()
        assert self.failure is not None
        return self.failure

    # --- for the process that starts the broker

    @property
    def settings(self) -> Settings:
        """The current settings, with dynamic changes."""
        return self.current_settings.value

    @property
    def image(self) -> ClusterImage:
        """Committed metadata; a controller of this process has another image."""
        return self.applier.image

    @property
    def node_id(self) -> int:
        return self.settings.node_id

    @property
    def cluster_id(self) -> str:
        return self.image.cluster_id

    @property
    def bootstrap(self) -> str:
        _, host, port = self.addresses[0]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    async def create_topics(self, topics: Iterable[tuple[str, int, int]]) -> None:
        """Creates topics given as (name, partitions, replicas); existing topics stay unchanged."""
        new_topics = [
            NewTopic(name=name, partitions=partitions, replication_factor=replicas)
            for name, partitions, replicas in topics
        ]
        outcomes = await self.controller.create_topics(new_topics)
        for topic, outcome in zip(new_topics, outcomes, strict=True):
            if isinstance(outcome, Refusal) and outcome.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                raise CannotStart(f"topic {topic.name}: {outcome.message or outcome.code.sentence}")

    async def stop(self) -> None:
        """Sends pending responses, flushes the logs, writes the checkpoints and closes everything.

        Does nothing if the broker is stopped.
        """
        await self._exit_stack.aclose()

    async def crash(self) -> None:
        """Stops like a killed process: sends no response and writes nothing. For test kits."""
        self._is_crashing = True
        try:
            await self.socket_server.stop(0)
        finally:
            with contextlib.suppress(OSError):  # a simulated disk rejects writes after a crash
                await self.stop()


async def end_tasks(tasks: Iterable[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
