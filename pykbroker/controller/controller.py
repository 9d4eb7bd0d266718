"""The controller at work: one command after the other is decided, logged, replayed, told.

A command is decided against the image. Its records go into the metadata log as one batch, which
must survive a power cut before anybody hears of it. Then they are replayed into the image, the
observers follow, and the sender gets the outcome. What was decided but not logged never happened.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from pykbroker.controller.brokers import (
    BrokerRegistration,
    lead_again,
    register_broker,
    unfence_broker,
)
from pykbroker.controller.changes import Changes, replay
from pykbroker.controller.decision import Decision
from pykbroker.controller.features import FEATURES_OF_A_NEW_CLUSTER, refuse_features
from pykbroker.controller.image import ClusterImage, TopicImage
from pykbroker.controller.metadata_log import MetadataLog
from pykbroker.controller.new_partitions import NewPartitions, create_partitions
from pykbroker.controller.producer_ids import allocate_producer_ids
from pykbroker.controller.topics import NewTopic, TopicRules, create_topics, delete_topics
from pykbroker.settings import refuse_topic_overrides
from pykbroker_protocol.metadata.cluster import FeatureLevelRecord
from pykbroker_storage.checkpoint import META_PROPERTIES_FILE, MetaProperties
from pykbroker_storage.filesystem import LOCAL_DISK, read_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pykbroker.clock import Chance, Clock
    from pykbroker.settings import Settings
    from pykbroker_protocol.errors import Refusal
    from pykbroker_protocol.message import Message
    from pykbroker_storage.log_directory import LogDirectory

logger = logging.getLogger(__name__)

Outcome = TypeVar("Outcome")

RECORDS_PER_BATCH_MAX = 1_000
"""Of what has no need to happen at once."""


class ControllerStopped(Exception):
    """The metadata log could not be written; what is in the image may not be what is on disk."""


class CannotLoadMetadata(Exception):
    """The metadata in the log directory is not for this node; the message tells the operator."""


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
    ) -> Controller:
        """Replay what the log directory holds and begin a new epoch."""
        log = MetadataLog.open(
            directory, node_id=settings.node_id, now_ms=clock.now_ms(), durable=durable
        )
        image = ClusterImage(cluster_id=cluster_id_of(directory), controller_id=settings.node_id)
        controller = cls(directory, log, image, settings=settings, clock=clock, chance=chance)
        controller.load()
        await controller.lead()
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
    ) -> None:
        self.image = image
        self.settings = settings
        self.clock = clock
        self.chance = chance
        self.directory = directory
        self.log = log
        self._turn = asyncio.Lock()
        self._observers: list[Callable[[Changes], None]] = []
        self._working: set[asyncio.Task[object]] = set()
        self._failure: OSError | None = None

    # --- commands

    async def create_topics(
        self, wanted: Sequence[NewTopic], *, validate_only: bool = False
    ) -> list[TopicImage | Refusal]:
        rules = self._topic_rules()
        return await self._execute(
            lambda: create_topics(self.image, wanted, rules), validate_only=validate_only
        )

    async def delete_topics(self, named: Sequence[str | bytes]) -> list[TopicImage | Refusal]:
        return await self._execute(lambda: delete_topics(self.image, named))

    async def create_partitions(
        self, wanted: Sequence[NewPartitions], *, validate_only: bool = False
    ) -> list[Refusal | None]:
        return await self._execute(
            lambda: create_partitions(self.image, wanted, self.chance.below),
            validate_only=validate_only,
        )

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

    def observe(self, follow: Callable[[Changes], None]) -> None:
        """Call `follow` after each commit, before the command's sender hears of it."""
        self._observers.append(follow)

    async def close(self) -> None:
        """Let the commands under way come to their end; the log belongs to its directory."""
        while self._working:
            await asyncio.gather(*self._working, return_exceptions=True)

    # --- how a command is carried out

    async def _execute(
        self, decide: Callable[[], Decision[Outcome]], *, validate_only: bool = False
    ) -> Outcome:
        """Shielded: once records are in the log, the image must take them, come what may."""
        task = asyncio.ensure_future(self._carry_out(decide, validate_only=validate_only))
        self._working.add(task)
        task.add_done_callback(self._working.discard)
        return await asyncio.shield(task)

    async def _carry_out(
        self, decide: Callable[[], Decision[Outcome]], *, validate_only: bool
    ) -> Outcome:
        async with self._turn:
            if self._failure is not None:
                raise ControllerStopped(str(self._failure)) from self._failure
            decision = decide()
            if decision.records and not validate_only:
                await self._commit(decision.records)
            return decision.outcome

    async def _commit(self, records: Sequence[Message]) -> None:
        last_offset = self.log.append(records, self.clock.now_ms())
        try:
            await asyncio.to_thread(self.log.commit)
        except OSError as failure:
            # The records may or may not be on disk: only a start that reads it can tell.
            self._failure = failure
            logger.critical("the metadata log cannot be flushed (%s); no more changes", failure)
            raise ControllerStopped(str(failure)) from failure
        changes = replay(self.image, records)
        self.image.offset = last_offset
        for follow in self._observers:
            follow(changes)

    # --- starting

    def load(self) -> None:
        """Bring the image to where the log ends."""
        for record in self.log.records(self.log.log.log_start_offset):
            self.image.apply(record)
        self.image.offset = self.log.end_offset - 1
        refusal = refuse_features(self.image.features)
        if refusal is not None:
            raise CannotLoadMetadata(refusal)

    async def lead(self) -> None:
        self.log.begin_epoch(self.clock.now_ms())
        await asyncio.to_thread(self.log.commit)
        self.image.offset = self.log.end_offset - 1
        if not self.image.features:
            await self._execute(lambda: Decision(tuple(first_records()), None))

    def _topic_rules(self) -> TopicRules:
        settings = self.settings
        return TopicRules(
            default_partitions=settings.num_partitions,
            default_replication_factor=settings.default_replication_factor,
            refuse_configuration=lambda given: refuse_topic_overrides(settings, given),
            new_id=self.chance.uuid_bytes,
            draw=self.chance.below,
        )


def first_records() -> Iterator[Message]:
    """What a new cluster begins with."""
    for name, level in FEATURES_OF_A_NEW_CLUSTER.items():
        yield FeatureLevelRecord(name=name, feature_level=level)


def cluster_id_of(directory: LogDirectory) -> str:
    """The cluster that the directory was claimed for when it was opened."""
    path = f"{directory.path}/{META_PROPERTIES_FILE}"
    return MetaProperties.decode(read_file(LOCAL_DISK, path)).cluster_id
