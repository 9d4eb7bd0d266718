"""The controller at work: one command after the other is decided, logged, replayed, told.

A command is decided against the image. Its records go into the metadata log as one batch, which
must survive a power cut before anybody hears of it. Then they are replayed into the image, the
observers follow, and the sender gets the outcome. What was decided but not logged never happened.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from pykbroker.controller.brokers import (
    BrokerRegistration,
    lead_again,
    register_broker,
    unfence_broker,
    unregister_broker,
)
from pykbroker.controller.configurations import (
    ConfigurationChange,
    ConfigurationReplacement,
    alter_configurations,
    replace_configurations,
)
from pykbroker.controller.decision import Decision
from pykbroker.controller.elections import Candidacy, Election, elect_leaders
from pykbroker.controller.feature_updates import FeatureUpdate, update_features
from pykbroker.controller.metadata_log import CannotLoadMetadata, MetadataLog
from pykbroker.controller.moves import Move, move_partitions
from pykbroker.controller.new_partitions import NewPartitions, create_partitions
from pykbroker.controller.producer_ids import allocate_producer_ids
from pykbroker.controller.topics import NewTopic, TopicRules, create_topics, delete_topics
from pykbroker.metadata.effective_settings import effective_settings
from pykbroker.metadata.features import FEATURES_OF_A_NEW_CLUSTER, refuse_features
from pykbroker.metadata.image import ClusterImage, ImageDelta, TopicImage
from pykbroker.metadata.replay import replay
from pykbroker.settings import refuse_topic_overrides
from pykbroker.slices import in_slices
from pykbroker_protocol.errors import ErrorCode, Refusal
from pykbroker_protocol.metadata.cluster import FeatureLevelRecord
from pykbroker_protocol.metadata.topics import PartitionRecord
from pykbroker_storage.checkpoint import META_PROPERTIES_FILE, MetaProperties
from pykbroker_storage.filesystem import LOCAL_DISK, NO_DESCRIPTOR, read_file

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence

    from pykbroker.clock import Chance, Clock
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
"""Bounds what a start has to replay: some 40,000 records, less than half a second."""

FLUSH_RETRY_SECONDS = 0.5
"""How long a flush waits for a file descriptor when the broker has none to release."""

RECORDS_PER_BATCH_MAX = 1_000
"""Of what has no need to happen at once."""


class CannotCommit(Exception):
    """The metadata log could not be written, so the command has no outcome."""


class Controller:
    """Lives on one event loop; every command is safe to cancel: it happens whole or not at all."""

    @classmethod
    async def open(
        cls,
        directory: LogDirectory,
        *,
        settings: Settings,
        clock: Clock,
        chance: Chance,
        durable: bool = True,
        snapshot_after_bytes: int = SNAPSHOT_AFTER_BYTES,
    ) -> Controller:
        """Replay what the log directory holds and begin a new epoch.

        Raises CannotLoadMetadata if that is not for this node, or the disk does not take an epoch.
        """
        try:
            log = MetadataLog.open(
                directory,
                node_id=settings.node_id,
                now_ms=clock.now_ms(),
                durable=durable,
                filesystem=directory.filesystem,
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
            chance=chance,
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
        log: MetadataLog,
        image: ClusterImage,
        *,
        settings: Settings,
        clock: Clock,
        chance: Chance,
        snapshot_after_bytes: int,
    ) -> None:
        self.image = image
        self.settings = settings
        self.clock = clock
        self.chance = chance
        self.directory = directory
        self.log = log
        self._turn = asyncio.Lock()
        self._subscribers: list[Deliver] = []
        self._working: set[asyncio.Task[Any]] = set()
        self._failure: OSError | None = None
        self._is_closing = False
        self._snapshot_after_bytes = snapshot_after_bytes
        self._snapshot_due_at_bytes = snapshot_after_bytes

    # --- commands

    async def create_topics(
        self, wanted: Sequence[NewTopic], *, validate_only: bool = False
    ) -> list[TopicImage | Refusal]:
        return await self._answer_each(
            lambda: create_topics(self.image, wanted, self._topic_rules()),
            len(wanted),
            validate_only=validate_only,
        )

    async def delete_topics(self, named: Sequence[str | bytes]) -> list[TopicImage | Refusal]:
        return await self._answer_each(lambda: delete_topics(self.image, named), len(named))

    async def create_partitions(
        self, wanted: Sequence[NewPartitions], *, validate_only: bool = False
    ) -> list[Refusal | None]:
        return await self._answer_each(
            lambda: create_partitions(self.image, wanted, self.chance.below),
            len(wanted),
            validate_only=validate_only,
        )

    async def alter_configurations(
        self, changes: Sequence[ConfigurationChange], *, validate_only: bool = False
    ) -> list[Refusal | None]:
        return await self._answer_each(
            lambda: alter_configurations(self.image, changes, self.settings_in_force()),
            len(changes),
            validate_only=validate_only,
        )

    async def replace_configurations(
        self, replacements: Sequence[ConfigurationReplacement], *, validate_only: bool = False
    ) -> list[Refusal | None]:
        return await self._answer_each(
            lambda: replace_configurations(self.image, replacements, self.settings_in_force()),
            len(replacements),
            validate_only=validate_only,
        )

    async def update_features(
        self, updates: Sequence[FeatureUpdate], *, validate_only: bool = False
    ) -> Refusal | None:
        """Raises CannotCommit if the log takes no record."""
        return await self._execute(
            lambda: update_features(self.image.features, updates), validate_only=validate_only
        )

    async def elect_leaders(
        self, asked: Sequence[Candidacy], election: Election
    ) -> list[Refusal | None]:
        return await self._answer_each(
            lambda: elect_leaders(self.image, asked, election), len(asked)
        )

    async def move_partitions(self, moves: Sequence[Move]) -> list[Refusal | None]:
        return await self._answer_each(lambda: move_partitions(self.image, moves), len(moves))

    async def allocate_producer_ids(self) -> range:
        """The next block for this node."""
        return await self._execute(
            lambda: allocate_producer_ids(self.image, self.image.brokers[self.settings.node_id])
        )

    async def register_broker(self, registration: BrokerRegistration) -> int:
        """The broker's epoch; it is fenced until it asks to be let in."""
        return await self._execute(
            lambda: register_broker(registration, next_offset=self.log.end_offset)
        )

    async def unfence_broker(self, broker_id: int) -> None:
        await self._execute(lambda: unfence_broker(self.image, broker_id))

    async def unregister_broker(self, broker_id: int) -> Refusal | None:
        """Raises CannotCommit if the log takes no record."""
        return await self._execute(lambda: unregister_broker(self.image, broker_id))

    async def join(self, *, listeners: Mapping[str, tuple[str, int]], rack: str | None) -> int:
        """Bring this node into its own cluster: registered, leading what it led, let in."""
        node_id = self.settings.node_id
        broker_epoch = await self.register_broker(
            BrokerRegistration(
                broker_id=node_id,
                incarnation_id=self.chance.uuid_bytes(),
                listeners=listeners,
                rack=rack,
                directories=(self.directory.directory_id,),
            )
        )
        was_clean = self.directory.was_clean
        changes = list(lead_again(self.image, node_id, was_clean=was_clean))
        for first in range(0, len(changes), RECORDS_PER_BATCH_MAX):
            batch = changes[first : first + RECORDS_PER_BATCH_MAX]
            await self._execute(partial(Decision, batch, None))
        await self.unfence_broker(node_id)
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
        """Let the commands under way come to their end; the log belongs to its directory."""
        self._is_closing = True
        while self._working:
            await asyncio.gather(*self._working, return_exceptions=True)

    # --- how a command is carried out

    async def _answer_each(
        self,
        decide: Callable[[], Decide[list[Answer | Refusal]]],
        count: int,
        *,
        validate_only: bool = False,
    ) -> list[Answer | Refusal]:
        """Clients are told of a log that cannot be written as of any other refusal."""
        try:
            return await self._execute(decide, validate_only=validate_only)
        except CannotCommit as failure:
            return [Refusal(ErrorCode.KAFKA_STORAGE_ERROR, str(failure))] * count

    async def _execute(
        self, decide: Callable[[], Decide[Outcome]], *, validate_only: bool = False
    ) -> Outcome:
        """Shielded: once records are in the log, the image must take them, come what may."""
        return await asyncio.shield(
            self._begin(self._carry_out(decide, validate_only=validate_only))
        )

    def _begin(self, work: Coroutine[None, None, Outcome]) -> asyncio.Task[Outcome]:
        task = asyncio.get_running_loop().create_task(work)
        self._working.add(task)
        task.add_done_callback(self._working.discard)
        return task

    async def _carry_out(
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
        try:
            appending = self.log.append(records, self.clock.now_ms())
            last_offset = await in_slices(appending, begins_at_once=True)
        except OSError as failure:  # the log is as it was
            logger.warning("the metadata log takes no records (%s); nothing was changed", failure)
            raise CannotCommit(str(failure)) from failure
        try:
            await self._flush_with_descriptor()
        except OSError as failure:
            # The records may or may not be on disk: only a start that reads it can tell.
            self._failure = failure
            logger.critical("the metadata log cannot be flushed (%s); no more changes", failure)
            raise CannotCommit(str(failure)) from failure
        await self._forget_deleted_logs(records)
        replaying = replay(self.image, records, last_offset=last_offset)
        delta = await in_slices(replaying, begins_at_once=True)
        self.image.apply(delta)
        for deliver in self._subscribers:
            await self._deliver(deliver, delta)
        if self.log.size_bytes > self._snapshot_due_at_bytes:
            self._snapshot_due_at_bytes = self.log.size_bytes + self._snapshot_after_bytes
            self._begin(self._take_snapshot())

    async def _forget_deleted_logs(self, records: Sequence[Message]) -> None:
        """Removes deleted logs from the checkpoints before new logs reuse their names."""
        directory = self.directory
        if directory.has_offsets_of_deleted_logs and any(
            isinstance(it, PartitionRecord) for it in records
        ):
            with suppress(OSError):  # then the new log waits until the disk takes them
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
                        "metadata log: no file descriptor for a flush (%s); changes of metadata "
                        "wait, next attempt every %g s",
                        problem,
                        FLUSH_RETRY_SECONDS,
                    )
                if not self.directory.filesystem.release_descriptor():
                    await self.clock.sleep(FLUSH_RETRY_SECONDS)
            else:
                if retries:
                    logger.info("metadata log: flushed after %d retries", retries)
                return

    async def _deliver(self, deliver: Deliver, delta: ImageDelta) -> None:
        """The command succeeds even if a subscriber fails, because its records are committed."""
        try:
            delivering = deliver(delta)
            if delivering is not None:
                await delivering
        except Exception:
            logger.exception(
                "metadata: offset %d is committed but a subscriber failed", delta.last_offset
            )

    async def _take_snapshot(self) -> None:
        """In turn with commands, so that the image stays as it is while it is written."""
        async with self._turn:
            now_ms = self.clock.now_ms()
            try:
                name = self.log.begin_snapshot(now_ms)
                await asyncio.to_thread(self.log.write_snapshot, name, self.image, now_ms)
                self.log.forget_before(name, now_ms)
            except OSError as failure:  # nothing is lost: the log still has it all
                logger.warning("no snapshot of the metadata could be written: %s", failure)
                return
            self._snapshot_due_at_bytes = self._snapshot_after_bytes

    # --- starting

    def load(self) -> None:
        """Bring the image to where the log ends."""
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
            new_id=self.chance.uuid_bytes,
            draw=self.chance.below,
        )

    def settings_in_force(self) -> Settings:
        return effective_settings(self.settings, self.image)


def first_records() -> Iterator[Message]:
    """What a new cluster begins with."""
    for name, level in FEATURES_OF_A_NEW_CLUSTER.items():
        yield FeatureLevelRecord(name=name, feature_level=level)


def cluster_id_of(directory: LogDirectory) -> str:
    """The cluster that the directory was claimed for when it was opened."""
    path = f"{directory.path}/{META_PROPERTIES_FILE}"
    return MetaProperties.decode(read_file(LOCAL_DISK, path)).cluster_id
