"""The active controller: decides commands, commits their records and delivers the committed deltas.

A command is decided against the image of the controller. Its records are replayed into a delta,
appended to the metadata log as one batch and flushed. Then the delta is applied to the image and
delivered to subscribers, and the command returns. A command whose records are not in the log has no
effect.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from pykbroker.controller.brokers import (
    lead_again,
    register_broker,
    unfence_broker,
    unregister_broker,
)
from pykbroker.controller.configurations import alter_configurations, replace_configurations
from pykbroker.controller.decision import Decision
from pykbroker.controller.elections import elect_leaders
from pykbroker.controller.feature_updates import update_features
from pykbroker.controller.leader_log import LeaderLog
from pykbroker.controller.new_partitions import create_partitions
from pykbroker.controller.producer_ids import allocate_producer_ids
from pykbroker.controller.reassignments import reassign_partitions
from pykbroker.controller.topics import TopicRules, create_topics, delete_topics
from pykbroker.controller_access import (
    BrokerRegistration,
    ConfigurationChange,
    ConfigurationReplacement,
    ControllerFailure,
    ElectionType,
    FeatureUpdate,
    NewPartitions,
    NewTopic,
    PartitionReassignment,
    QuorumStatus,
    TopicPartition,
    refusal_of,
)
from pykbroker.metadata.effective_settings import effective_settings
from pykbroker.metadata.features import FEATURES_OF_A_NEW_CLUSTER, refuse_features
from pykbroker.metadata.image import ClusterImage, ImageDelta, TopicImage
from pykbroker.metadata.replay import replay
from pykbroker.metadata_log.metadata_log import CannotLoadMetadata
from pykbroker.settings import refuse_topic_overrides
from pykbroker.slices import in_slices
from pykbroker_protocol.errors import ErrorCode, Refusal
from pykbroker_protocol.metadata.cluster import FeatureLevelRecord
from pykbroker_protocol.metadata.topics import PartitionRecord
from pykbroker_storage.checkpoint import META_PROPERTIES_FILE, MetaProperties
from pykbroker_storage.filesystem import LOCAL_DISK, NO_DESCRIPTOR, read_file

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence

    from pykbroker.clock import Clock, Randomness
    from pykbroker.settings import Settings
    from pykbroker.slices import Slices
    from pykbroker_protocol.message import Message
    from pykbroker_storage.log_directory import LogDirectory

logger = logging.getLogger(__name__)

Outcome = TypeVar("Outcome")
Answer = TypeVar("Answer")
Decide: TypeAlias = "Decision[Outcome] | Slices[Decision[Outcome]]"
Deliver: TypeAlias = "Callable[[ImageDelta], Awaitable[None] | None]"

SNAPSHOT_AFTER_BYTES = 2 * 1024 * 1024
"""Bounds the records that a start replays: about 40,000 records, less than half a second."""

FLUSH_RETRY_SECONDS = 0.5
"""Pause before the next attempt of a flush that gets no file descriptor."""

RECORDS_PER_BATCH_MAX = 1_000
"""For records that need not be committed together."""


class CannotCommit(ControllerFailure):
    """The metadata log could not be written, so the command has no outcome."""

    code = ErrorCode.KAFKA_STORAGE_ERROR


class Controller:
    """Runs on one event loop. A cancelled command is either executed completely or not at all."""

    @classmethod
    async def open(
        cls,
        directory: LogDirectory,
        *,
        settings: Settings,
        clock: Clock,
        randomness: Randomness,
        durable: bool = True,
        snapshot_after_bytes: int = SNAPSHOT_AFTER_BYTES,
    ) -> Controller:
        """Replays the metadata log and begins a new leader epoch.

        Raises CannotLoadMetadata if the log is not valid here or the epoch cannot be written.
        """
        try:
            log = LeaderLog.open(
                directory,
                node_id=settings.node_id,
                now_ms=clock.now_ms(),
                durable=durable,
            )
        except OSError as problem:
            raise CannotLoadMetadata(f"{directory.path}: {problem}") from problem
        image = ClusterImage(cluster_id=cluster_id_of(directory), controller_id=settings.node_id)
        controller = cls(
            directory,
            log,
            image,
            settings=settings,
            clock=clock,
            randomness=randomness,
            snapshot_after_bytes=snapshot_after_bytes,
        )
        controller.load()
        try:
            await controller.lead()
        except OSError as problem:
            raise CannotLoadMetadata(f"{directory.path}: {problem}") from problem
        return controller

    def __init__(
        self,
        directory: LogDirectory,
        log: LeaderLog,
        image: ClusterImage,
        *,
        settings: Settings,
        clock: Clock,
        randomness: Randomness,
        snapshot_after_bytes: int,
    ) -> None:
        self.image = image
        self.settings = settings
        self.clock = clock
        self.randomness = randomness
        self.directory = directory
        self.log = log
        self._turn = asyncio.Lock()
        self._subscribers: list[Deliver] = []
        self._working: set[asyncio.Task[Any]] = set()
        self._failure: OSError | None = None
        self._is_closing = False
        self._snapshot_after_bytes = snapshot_after_bytes
        self._snapshot_due_at_bytes = snapshot_after_bytes

    # --- commands (controller_access.ControllerAccess)

    async def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False
    ) -> list[TopicImage | Refusal]:
        return await self._outcomes(
            lambda: create_topics(self.image, topics, self._topic_rules()),
            len(topics),
            validate_only=validate_only,
        )

    async def delete_topics(
        self, names_or_ids: Sequence[str | bytes]
    ) -> list[TopicImage | Refusal]:
        return await self._outcomes(
            lambda: delete_topics(self.image, names_or_ids), len(names_or_ids)
        )

    async def create_partitions(
        self, topics: Sequence[NewPartitions], *, validate_only: bool = False
    ) -> list[Refusal | None]:
        return await self._outcomes(
            lambda: create_partitions(self.image, topics, self.randomness.below),
            len(topics),
            validate_only=validate_only,
        )

    async def alter_configurations(
        self, changes: Sequence[ConfigurationChange], *, validate_only: bool = False
    ) -> list[Refusal | None]:
        return await self._outcomes(
            lambda: alter_configurations(self.image, changes, self.settings_in_force()),
            len(changes),
            validate_only=validate_only,
        )

    async def replace_configurations(
        self, replacements: Sequence[ConfigurationReplacement], *, validate_only: bool = False
    ) -> list[Refusal | None]:
        return await self._outcomes(
            lambda: replace_configurations(self.image, replacements, self.settings_in_force()),
            len(replacements),
            validate_only=validate_only,
        )

    async def elect_leaders(
        self, partitions: Sequence[TopicPartition], election_type: ElectionType
    ) -> list[Refusal | None]:
        return await self._outcomes(
            lambda: elect_leaders(self.image, partitions, election_type), len(partitions)
        )

    async def reassign_partitions(
        self, reassignments: Sequence[PartitionReassignment]
    ) -> list[Refusal | None]:
        return await self._outcomes(
            lambda: reassign_partitions(self.image, reassignments), len(reassignments)
        )

    async def update_features(
        self, updates: Sequence[FeatureUpdate], *, validate_only: bool = False
    ) -> Refusal | None:
        return await self._outcome(
            lambda: update_features(self.image.features, updates), validate_only=validate_only
        )

    async def allocate_producer_ids(self) -> range | Refusal:
        return await self._outcome(
            lambda: allocate_producer_ids(self.image, self.image.brokers[self.settings.node_id])
        )

    async def register_broker(self, registration: BrokerRegistration) -> int | Refusal:
        return await self._outcome(
            lambda: register_broker(registration, next_offset=self.log.end_offset)
        )

    async def unregister_broker(self, broker_id: int) -> Refusal | None:
        return await self._outcome(lambda: unregister_broker(self.image, broker_id))

    async def describe_quorum(self) -> QuorumStatus:
        """Records that are appended and not yet flushed are above the high watermark."""
        return QuorumStatus(
            leader_id=self.settings.node_id,
            leader_epoch=self.log.epoch,
            high_watermark=self.image.offset + 1,
            log_end_offset=self.log.end_offset,
        )

    async def join(self, *, listeners: Mapping[str, tuple[str, int]], rack: str | None) -> int:
        """Registers this node, makes it leader of its partitions again and unfences it.

        Returns the broker epoch. Raises CannotCommit.
        """
        node_id = self.settings.node_id
        registration = BrokerRegistration(
            broker_id=node_id,
            incarnation_id=self.randomness.uuid_bytes(),
            listeners=listeners,
            rack=rack,
            directories=(self.directory.directory_id,),
        )
        broker_epoch = await self._execute(
            lambda: register_broker(registration, next_offset=self.log.end_offset)
        )
        was_clean = self.directory.was_clean
        changes = list(lead_again(self.image, node_id, was_clean=was_clean))
        for first in range(0, len(changes), RECORDS_PER_BATCH_MAX):
            batch = changes[first : first + RECORDS_PER_BATCH_MAX]
            await self._execute(partial(Decision, batch, None))
        await self._execute(lambda: unfence_broker(self.image, node_id))
        return broker_epoch

    def subscribe(self, deliver: Deliver) -> ClusterImage:
        """Returns a copy of the committed image, and delivers the delta of each later commit.

        A delta is delivered before the command returns. If `deliver` returns an awaitable, the
        command and all later commands wait for it. The copy shares its values with the image of
        the controller; the subscriber applies the deltas to it.
        """
        self._subscribers.append(deliver)
        return self.image.copy()

    async def close(self) -> None:
        """Waits for running commands. The log directory closes the log."""
        self._is_closing = True
        while self._working:
            await asyncio.gather(*self._working, return_exceptions=True)

    # --- executing a command

    async def _outcomes(
        self,
        decide: Callable[[], Decide[list[Answer | Refusal]]],
        count: int,
        *,
        validate_only: bool = False,
    ) -> list[Answer | Refusal]:
        """Returns the outcome of each object of the command."""
        outcomes = await self._outcome(decide, validate_only=validate_only)
        return [outcomes] * count if isinstance(outcomes, Refusal) else outcomes

    async def _outcome(
        self, decide: Callable[[], Decide[Outcome]], *, validate_only: bool = False
    ) -> Outcome | Refusal:
        try:
            return await self._execute(decide, validate_only=validate_only)
        except CannotCommit as failure:
            return refusal_of(failure)

    async def _execute(
        self, decide: Callable[[], Decide[Outcome]], *, validate_only: bool = False
    ) -> Outcome:
        """Executes a command that cannot be cancelled: records in the log must be replayed."""
        return await asyncio.shield(
            self._begin(self._execute_in_turn(decide, validate_only=validate_only))
        )

    def _begin(self, work: Coroutine[None, None, Outcome]) -> asyncio.Task[Outcome]:
        task = asyncio.get_running_loop().create_task(work)
        self._working.add(task)
        task.add_done_callback(self._working.discard)
        return task

    async def _execute_in_turn(
        self, decide: Callable[[], Decide[Outcome]], *, validate_only: bool
    ) -> Outcome:
        async with self._turn:
            if self._failure is not None:
                raise CannotCommit(str(self._failure)) from self._failure
            decision = decide()
            if not isinstance(decision, Decision):
                decision = await in_slices(decision, begins_at_once=True)
            if decision.records and not validate_only:
                await self._commit(decision.records)
            return decision.outcome

    async def _commit(self, records: Sequence[Message]) -> None:
        # Replayed before the append: records that do not fit the image must not reach the log.
        last_offset = self.log.end_offset + len(records) - 1
        replaying = replay(self.image, records, last_offset=last_offset)
        delta = await in_slices(replaying, begins_at_once=True)
        try:
            appending = self.log.append(records, self.clock.now_ms())
            await in_slices(appending, begins_at_once=True)
        except OSError as failure:  # the log is unchanged
            logger.warning(
                "metadata log: append failed (%s); the request is rejected, metadata is unchanged",
                failure,
            )
            raise CannotCommit(str(failure)) from failure
        try:
            await self._flush_with_descriptor()
        except OSError as failure:
            # The records may or may not be on disk; the next start reads the log.
            self._failure = failure
            logger.critical(
                "metadata log: flush failed (%s); all metadata changes are rejected with "
                "KAFKA_STORAGE_ERROR until the broker restarts",
                failure,
            )
            raise CannotCommit(str(failure)) from failure
        await self._remove_deleted_offsets(records)
        self.image.apply(delta)
        for deliver in self._subscribers:
            await self._deliver(deliver, delta)
        if self.log.size_bytes > self._snapshot_due_at_bytes:
            self._snapshot_due_at_bytes = self.log.size_bytes + self._snapshot_after_bytes
            self._begin(self._take_snapshot())

    async def _remove_deleted_offsets(self, records: Sequence[Message]) -> None:
        """Removes deleted logs from the checkpoints before new logs reuse their names."""
        directory = self.directory
        if directory.has_offsets_of_deleted_logs and any(
            isinstance(it, PartitionRecord) for it in records
        ):
            with suppress(OSError):  # then creating the new log fails and is retried
                await asyncio.to_thread(directory.save_offsets, directory.offset_snapshot({}))

    async def _flush(self) -> None:
        if self.log.is_durable:
            await asyncio.to_thread(self.log.commit)

    async def _flush_with_descriptor(self) -> None:
        """Retries while there is no file descriptor; any other error may be a failed fsync."""
        for retries in itertools.count():
            try:
                await self._flush()
            except OSError as problem:
                if problem.errno not in NO_DESCRIPTOR or self._is_closing:
                    raise
                if not retries:
                    logger.warning(
                        "metadata log: no file descriptor for a flush (%s); metadata changes "
                        "wait; retrying every %g s",
                        problem,
                        FLUSH_RETRY_SECONDS,
                    )
                if not self.directory.filesystem.release_descriptor():
                    await self.clock.sleep(FLUSH_RETRY_SECONDS)
            else:
                if retries:
                    logger.info("metadata log: flushed (retries: %d)", retries)
                return

    async def _deliver(self, deliver: Deliver, delta: ImageDelta) -> None:
        """The command succeeds even if a subscriber fails, because its records are committed."""
        try:
            delivering = deliver(delta)
            if delivering is not None:
                await delivering
        except Exception:
            logger.exception(
                "metadata: offset %d is committed but the broker did not apply it; partitions and "
                "Metadata responses are out of date; restart the broker",
                delta.last_offset,
            )

    async def _take_snapshot(self) -> None:
        """Holds the turn of the commands, so the image does not change while it is written."""
        async with self._turn:
            now_ms = self.clock.now_ms()
            try:
                name = self.log.begin_snapshot(now_ms)
                await asyncio.to_thread(self.log.write_snapshot, name, self.image, now_ms)
                self.log.delete_before(name, now_ms)
            except OSError as failure:
                logger.warning(
                    "metadata log: snapshot failed (%s); the log keeps all records; next attempt "
                    "after %d more bytes",
                    failure,
                    self._snapshot_after_bytes,
                )
                return
            self._snapshot_due_at_bytes = self._snapshot_after_bytes

    # --- starting

    def load(self) -> None:
        """Replays the log into the image."""
        self.log.load(self.image)
        refusal = refuse_features(self.image.features)
        if refusal is not None:
            raise CannotLoadMetadata(refusal)

    async def lead(self) -> None:
        self.log.begin_epoch(self.clock.now_ms())
        await self._flush()
        self.image.offset = self.log.end_offset - 1
        if not self.image.features:
            await self._execute(lambda: Decision(tuple(first_records()), None))

    def _topic_rules(self) -> TopicRules:
        settings = self.settings_in_force()
        return TopicRules(
            default_partitions=settings.num_partitions,
            default_replication_factor=settings.default_replication_factor,
            refuse_configuration=lambda given: refuse_topic_overrides(settings, given),
            new_id=self.randomness.uuid_bytes,
            draw=self.randomness.below,
        )

    def settings_in_force(self) -> Settings:
        return effective_settings(self.settings, self.image)


def first_records() -> Iterator[Message]:
    """Records of a new cluster."""
    for name, level in FEATURES_OF_A_NEW_CLUSTER.items():
        yield FeatureLevelRecord(name=name, feature_level=level)


def cluster_id_of(directory: LogDirectory) -> str:
    """Returns the cluster id in `meta.properties`."""
    path = f"{directory.path}/{META_PROPERTIES_FILE}"
    return MetaProperties.decode(read_file(LOCAL_DISK, path)).cluster_id
