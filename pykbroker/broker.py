"""The composition root: the parts of a broker, and the order in which they start and stop.

listeners ── transport ── apis ─┬─ partitions, coordinators ── logs on disk
                                └─ controller ── metadata log on disk
                                       │
          committed deltas ────────────┴──> image of the broker ──> partitions, coordinators, …
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from functools import partial
from typing import TYPE_CHECKING, Self

from pykbroker.apis.dispatch import Dispatcher
from pykbroker.apis.fetch_sessions import FetchSessions
from pykbroker.apis.node import Node
from pykbroker.apis.producer_ids import ProducerIds
from pykbroker.controller.controller import CannotCommit, Controller
from pykbroker.controller_access import NewTopic
from pykbroker.coordinators.group_coordinator import GroupCoordinator
from pykbroker.coordinators.topics_of_cluster import TopicsOfCluster
from pykbroker.coordinators.transaction_coordinator import TransactionCoordinator
from pykbroker.coordinators.transaction_markers import MarkerWriter
from pykbroker.descriptors import open_file_limit, shares_of
from pykbroker.environment import Environment
from pykbroker.generation import Generation
from pykbroker.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from pykbroker.metadata.effective_settings import effective_settings
from pykbroker.metadata.features import TRANSACTION_VERSION
from pykbroker.metadata.image import BROKER_RESOURCE, GROUP_RESOURCE, TOPIC_RESOURCE
from pykbroker.metadata_log.metadata_log import METADATA_PARTITION, CannotLoadMetadata
from pykbroker.partitions.partition_registry import Partitions, log_configuration
from pykbroker.partitions.upkeep import Upkeep
from pykbroker.reconciler import Reconciler
from pykbroker.settings import (
    CurrentSettings,
    broker_listeners,
    names_without_effect,
    parse_listener,
    topic_names_without_effect,
)
from pykbroker.settings import Listener as Address
from pykbroker.settings.load import WITHOUT_EFFECT
from pykbroker.slices import in_slices
from pykbroker.transport.busy_polling import BusyPolling
from pykbroker.transport.listener import CannotListen, Listener
from pykbroker.transport.socket_server import SocketServer
from pykbroker.wiring import (
    advertised,
    cluster_id_in,
    connection_limits,
    consumer_group_settings,
    group_settings,
    refuse_other_hosts,
    text_of,
    transaction_settings,
)
from pykbroker_protocol.errors import ErrorCode, Refusal
from pykbroker_storage.directory_files import UNKNOWN_BROKER_EPOCH
from pykbroker_storage.log_directory import LogDirectory, LogDirectoryError
from pykbroker_storage.mapped_file import OpenFiles

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pykbroker.metadata.image import ClusterImage, ImageDelta, TopicImage
    from pykbroker.settings import Settings
    from pykbroker.settings.current import Attempt

logger = logging.getLogger(__name__)

STOP_SECONDS_MAX = 5.0


class CannotStart(Exception):
    """The broker cannot start; the message is one line for the operator."""


class Broker:
    """A running node: broker and controller in one process."""

    def __init__(self, settings: Settings, environment: Environment) -> None:
        self.current_settings = CurrentSettings(settings)
        self._own_settings = settings
        self.environment = environment
        self.clock = environment.clock
        self.generation = Generation()
        self.addresses: list[Address] = []
        self.bound_port = 0
        self._exit_stack = contextlib.AsyncExitStack()
        self.directory_lost = asyncio.Event()
        """Set when the data directory no longer belongs to this process."""
        self._broker_epoch = UNKNOWN_BROKER_EPOCH
        self._opened_partitions: Partitions | None = None
        self._is_crashing = False
        self._logged_without_effect: set[str] = set()
        self.reconciler = Reconciler(environment.clock)

    directory: LogDirectory
    controller: Controller
    image: ClusterImage
    """Committed metadata; the controller has another image."""
    partitions: Partitions
    node: Node
    groups: GroupCoordinator
    transactions: TransactionCoordinator
    socket_server: SocketServer

    @classmethod
    async def start(cls, settings: Settings, environment: Environment | None = None) -> Self:
        """Starts a broker; the default environment is that of the operating system."""
        broker = cls(settings, environment or Environment())
        await broker.begin()
        return broker

    async def begin(self) -> None:
        """Starts serving. Raises CannotStart after closing everything that was opened."""
        try:
            await self.open()
        except (CannotListen, LogDirectoryError, CannotLoadMetadata, CannotCommit) as error:
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
        self.open_directory()
        await self.open_controller()
        self.open_partitions()
        await self.partitions.until_flushed()
        self.open_coordinators()
        self.node = Node(
            node_id=self.settings.node_id,
            settings=self.settings,
            clock=self.clock,
            controller=self.controller,
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
            offer=self.environment.offer,
        )
        self.current_settings.subscribe("request handlers", self.node.configure)
        self.current_settings.subscribe("fast paths", lambda _: self.generation.advance())
        self.start_upkeep()
        self.open_socket_server(listeners)

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

    def open_directory(self) -> None:
        if len(self.settings.log_dirs) != 1:
            count = len(self.settings.log_dirs)
            raise CannotStart(f"log.dirs: {count} directories given, only one is supported")
        (path,) = self.settings.log_dirs
        filesystem, randomness = self.environment.filesystem, self.environment.randomness
        open_files = OpenFiles(filesystem, shares_of(open_file_limit()).log_files)
        filesystem.release_descriptor = open_files.release_least_recent
        self.directory = LogDirectory.open(
            path,
            cluster_id=cluster_id_in(path) or text_of(randomness.uuid_bytes()),
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
            if self._is_crashing:
                self.directory.abandon()
            else:
                self.directory.close(
                    {} if partitions is None else partitions.high_watermarks(),
                    now_ms=self.clock.now_ms(),
                    broker_epoch=self._broker_epoch,
                )
        finally:
            for partition in partitions or ():
                partition.end_waits()  # waiting fetches read again and find the log closed

    async def open_controller(self) -> None:
        settings = self.settings
        self.controller = await Controller.open(
            self.directory,
            settings=settings,
            clock=self.clock,
            randomness=self.environment.randomness,
            durable=self.environment.filesystem.is_durable,
        )
        self._exit_stack.push_async_callback(self.controller.close)
        self._broker_epoch = await self.controller.join(
            listeners={it.name: (it.host, it.port) for it in self.addresses},
            rack=settings.broker_rack,
        )

    def open_partitions(self) -> None:
        self.image = self.controller.subscribe(self.apply_delta)
        self._exit_stack.push_async_callback(self.reconciler.close)
        self.current_settings.value = effective_settings(self._own_settings, self.image)
        for resource_type, name in self.image.configurations:
            self.log_without_effect(resource_type, name)
        self.partitions = Partitions(
            node_id=self.settings.node_id,
            directory=self.directory,
            settings=self.settings,
            clock=self.clock,
            generation=self.generation,
            on_late_log=self.load_coordinators,
        )
        self._exit_stack.push_async_callback(self.partitions.flush_threads.end)
        self._exit_stack.push_async_callback(self.partitions.off_loop.close)
        self._opened_partitions = self.partitions
        self.current_settings.subscribe(
            "partitions", lambda it: self.partitions.change_defaults(it, self.image)
        )
        self.partitions.rename_strays(self.image, METADATA_PARTITION)
        self.partitions.apply_metadata(self.image, self.image.topics.values())

    def open_coordinators(self) -> None:
        self.topics = TopicsOfCluster(lambda: self.image)
        self.groups = GroupCoordinator(
            self.partitions,
            self.clock,
            self.topics,
            settings=group_settings(self.settings),
            consumer_settings=consumer_group_settings(self.settings, self.image.configurations),
            observer=self.environment.decision_observer,
        )
        self._exit_stack.push_async_callback(self.groups.close)
        self.current_settings.subscribe("consumer groups", self.configure_groups)
        self.transactions = TransactionCoordinator(
            self.partitions,
            self.clock,
            MarkerWriter(self.partitions, self.groups, lambda: self.image, self.clock),
            settings=transaction_settings(self.settings),
            verifies_partitions=self.settings.transaction_partition_verification_enable,
            observer=self.environment.decision_observer,
        )
        self._exit_stack.push_async_callback(self.transactions.close)
        self.current_settings.subscribe("transactions", self.configure_transactions)
        self.load_coordinators()

    def load_coordinators(self) -> None:
        """Loads coordinators of led partitions: at startup, and when a missing log opens later."""
        has_transactions = self.image.partition_count(TRANSACTION_STATE) > 0
        if has_transactions and not self.directory.was_clean:
            self.transactions.repair_losses()
        self.update_group_coordinator()
        self.update_transaction_coordinator()

    def update_group_coordinator(self) -> None:
        self.groups.update_partitions(self.image.partition_count(CONSUMER_OFFSETS))

    def update_transaction_coordinator(self) -> None:
        self.transactions.update_partitions(
            self.image.partition_count(TRANSACTION_STATE),
            transaction_version=self.image.features.get(TRANSACTION_VERSION, 0),
        )

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

    # --- metadata changes

    async def apply_delta(self, delta: ImageDelta) -> None:
        """Applies a committed delta to the image of the broker, then to its parts.

        Creating thousands of logs takes long, so it yields to the event loop between slices. A part
        that fails is logged and retried; the other parts are not affected.
        """
        image = self.image
        image.apply(delta)
        self.generation.advance()
        note_failure = partial(self.reconciler.note_failure, delta.last_offset)
        deletions = self.partitions.drop_in_slices(delta.topics_deleted, note_failure)
        await in_slices(deletions, begins_at_once=True)
        updates = self.partitions.apply_metadata_in_slices(
            image, delta.topics.values(), note_failure
        )
        await in_slices(updates, begins_at_once=True)
        self.topics.changed()
        attempt = partial(self.reconciler.attempt, delta.last_offset)
        attempt("the group coordinator", self.update_group_coordinator)
        attempt("the transaction coordinator", self.update_transaction_coordinator)
        if delta.topics_deleted:
            attempt(
                f"committed offsets of deleted topics ({delta.last_offset})",
                partial(self.delete_offsets, delta.topics_deleted),
            )
        for resource_type, name in delta.configurations:
            self.log_without_effect(resource_type, name)
            if resource_type == TOPIC_RESOURCE:
                attempt(
                    f"configuration of {name}", partial(self.partitions.reconfigure, image, name)
                )
        types = {resource_type for resource_type, _ in delta.configurations}
        if BROKER_RESOURCE in types:
            attempt("settings", lambda: self.change_settings(attempt))
        elif GROUP_RESOURCE in types:
            attempt("settings of consumer groups", lambda: self.configure_groups(self.settings))

    def delete_offsets(self, topics: Iterable[TopicImage]) -> None:
        """Deletes the committed offsets of deleted topics.

        A retry leaves names that exist again, because a group may have committed to the new topic.
        OffsetFetch ignores offsets of the old one: their topic id differs.
        """
        self.groups.topics_deleted([it.name for it in topics if it.name not in self.image.topics])

    def change_settings(self, attempt: Attempt) -> None:
        self.current_settings.change(effective_settings(self._own_settings, self.image), attempt)

    def configure_groups(self, settings: Settings) -> None:
        self.groups.configure(
            group_settings(settings), consumer_group_settings(settings, self.image.configurations)
        )

    def configure_transactions(self, settings: Settings) -> None:
        self.transactions.verifies_partitions = settings.transaction_partition_verification_enable

    def configure_connections(self, settings: Settings) -> None:
        self.socket_server.limits = connection_limits(settings)

    def log_without_effect(self, resource_type: int, resource: str) -> None:
        """Logs properties that are stored but have no effect, each once."""
        given = self.image.configurations.get((resource_type, resource), {})
        if resource_type == BROKER_RESOURCE:
            without_effect = names_without_effect(given)
        elif resource_type == TOPIC_RESOURCE:
            without_effect = topic_names_without_effect(given)
        else:
            return
        names = [name for name in without_effect if name not in self._logged_without_effect]
        if names:
            self._logged_without_effect.update(names)
            logger.warning(WITHOUT_EFFECT, ", ".join(names))

    def note_lost_directory(self) -> None:
        if not self.directory_lost.is_set():
            logger.critical(
                "%s: data directory was removed, replaced or locked by another process; "
                "records acknowledged in the last second can be lost; restore the directory and "
                "restart the broker",
                self.directory.path,
            )
            self.directory_lost.set()

    # --- for the process that starts the broker

    @property
    def settings(self) -> Settings:
        """The current settings, with dynamic changes."""
        return self.current_settings.value

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
