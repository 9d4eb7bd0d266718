"""The partitions of this node: lookup for requests; creation and deletion by the metadata."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from pykbroker.generators import run_to_end
from pykbroker.metadata.image import TOPIC_RESOURCE
from pykbroker.partitions.flushing import FlushThreads
from pykbroker.partitions.leader_context import LeaderContext
from pykbroker.partitions.leadership import leadership_of
from pykbroker.partitions.off_loop import OffLoop
from pykbroker.partitions.partition import Partition
from pykbroker.settings import resolve_topic
from pykbroker_storage.configuration import CleanupPolicy, LogConfiguration, TimestampSource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pykbroker.clock import Clock
    from pykbroker.generation import Generation
    from pykbroker.metadata.image import ClusterImage, PartitionImage, TopicImage
    from pykbroker.settings import Settings, TopicSettings
    from pykbroker.slices import Slices
    from pykbroker_storage.log import Log
    from pykbroker_storage.log_directory import LogDirectory

logger = logging.getLogger(__name__)

STRAYS_NAMED_MAX = 5
"""Stray folders named in one log line; a corrupt metadata log can leave thousands."""
COST_PER_SLICE = 512
COST_OF_A_NEW_LOG = 128
COST_OF_A_DELETED_LOG = 16
"""Costs relative to an update of an existing partition: files are created, or renamed.

A slice is four new logs: half a millisecond, or more on a busy disk.
"""


class WithoutLog(NamedTuple):
    """A partition whose log could not be opened yet, with its metadata and settings."""

    topic: TopicImage
    image: PartitionImage
    settings: TopicSettings


class PartitionObserver(Protocol):
    """Is called for each partition on the event loop, before the change of metadata returns."""

    def leadership_changed(self, partition: Partition) -> None:
        """The partition is new, or its leader, epoch, replicas or in-sync set have changed."""
        ...

    def removed(self, partition: Partition) -> None:
        """The partition was deleted, or this broker is no longer one of its replicas."""
        ...


NoteFailure: TypeAlias = "Callable[[str, Callable[[], None]], None]"
"""Receives the name of a partition and an action that retries, while the exception is handled."""


class Partitions:
    """Finds partitions by name, and applies changes of the cluster metadata to them."""

    def __init__(
        self,
        *,
        node_id: int,
        directory: LogDirectory,
        settings: Settings,
        clock: Clock,
        generation: Generation,
        on_late_log: Callable[[], None] = lambda: None,
        leader_context: LeaderContext | None = None,
    ) -> None:
        """`on_late_log` is called when a retry opens a log that could not be opened before."""
        self.node_id = node_id
        self.directory = directory
        self.settings = settings
        self.clock = clock
        self.generation = generation
        self.leader_context = leader_context or LeaderContext(clock)
        self.health = self.leader_context.health
        self.flush_threads = FlushThreads(settings.num_io_threads)
        self.flush_threads.health = self.health
        self.off_loop = OffLoop(
            disk_threads_max=settings.num_io_threads,
            bytes_held_max=settings.disk_read_buffer_bytes,
        )
        self._partitions: dict[tuple[str, int], Partition] = {}
        self._topic_names: dict[bytes, str] = {}
        self._without_log: dict[tuple[str, int], WithoutLog] = {}
        """Partitions whose log could not be opened; retried every second."""
        self._on_late_log = on_late_log
        self.observer: PartitionObserver | None = None
        """Replication, if this broker is one of several."""

    def get(self, topic: str, index: int) -> Partition | None:
        return self._partitions.get((topic, index))

    def topic_name(self, topic_id: bytes) -> str | None:
        return self._topic_names.get(topic_id)

    def __iter__(self) -> Iterator[Partition]:
        return iter(tuple(self._partitions.values()))

    def __len__(self) -> int:
        return len(self._partitions)

    def high_watermarks(self) -> dict[tuple[str, int], int]:
        return {name: it.high_watermark for name, it in self._partitions.items()}

    # --- metadata changes

    def rename_strays(self, image: ClusterImage, besides: tuple[str, int]) -> None:
        """Renames logs on disk that are not in the metadata; called at startup."""
        for name in self.directory.partitions():
            if name == besides:
                continue
            with suppress(OSError):  # `apply_metadata` logs the error and retries
                if not self._is_known(name, image):
                    self._set_stray(name)
        if strays := self.directory.strays():
            logger.warning(
                "%s: folders of partitions that are not in the metadata: %d (%s%s); they are kept; "
                "see 'Stray partitions' in docs/operations.md before you delete them",
                self.directory.path,
                len(strays),
                ", ".join(strays[:STRAYS_NAMED_MAX]),
                ", …" if len(strays) > STRAYS_NAMED_MAX else "",
            )

    def _is_known(self, name: tuple[str, int], image: ClusterImage) -> bool:
        topic = image.topics.get(name[0])
        return (
            topic is not None
            and name[1] < len(topic.partitions)
            and self.node_id in topic.partitions[name[1]].replicas
            and self._is_of(name, topic)
        )

    def _is_of(self, name: tuple[str, int], topic: TopicImage) -> bool:
        """Compares topic ids; a log without a readable id belongs to the topic with its name."""
        return self.directory.topic_id(name) in (topic.id, None)

    def _set_stray(self, name: tuple[str, int]) -> None:
        stray = self.directory.rename_to_stray(name)
        logger.warning(
            "%s-%d: log on disk belongs to no topic of the metadata (name or topic id differs); "
            "renamed to %s",
            *name,
            stray,
        )

    def apply_metadata(self, image: ClusterImage, topics: Iterable[TopicImage]) -> None:
        """Creates missing partitions of these topics, and applies the leadership of all."""
        run_to_end(self.apply_metadata_in_slices(image, topics))

    def apply_metadata_in_slices(
        self,
        image: ClusterImage,
        topics: Iterable[TopicImage],
        note_failure: NoteFailure | None = None,
    ) -> Slices[None]:
        """Like `apply_metadata`, in slices; `note_failure` receives errors, if given."""
        cost = 0
        for topic in topics:
            self._topic_names[topic.id] = topic.name
            settings = None
            for partition in topic.partitions:
                name = topic.name, partition.index
                is_replica = self.node_id in partition.replicas
                if not is_replica and name not in self._partitions:
                    self._without_log.pop(name, None)
                    continue
                is_new = name not in self._partitions
                try:
                    if is_replica:
                        settings = settings or self.topic_settings(image, topic.name)
                        self.update_partition(topic, partition, settings)
                    else:
                        self.remove_replica(topic, partition)
                except Exception:  # logged and retried
                    if note_failure is None:
                        raise
                    again = partial(self.retry_update, image, topic.name, partition.index)
                    note_failure(f"{topic.name}-{partition.index}", again)
                cost += COST_OF_A_NEW_LOG if is_new else 1
                if cost >= COST_PER_SLICE:
                    cost = 0
                    yield

    def retry_update(self, image: ClusterImage, name: str, index: int) -> None:
        """Retries `update_partition` with the current metadata, if the partition still exists."""
        topic = image.topics.get(name)
        partitions = topic.partitions if topic is not None else ()
        if topic is not None and index < len(partitions):
            partition = partitions[index]
            if self.node_id in partition.replicas:
                self.update_partition(topic, partition, self.topic_settings(image, name))
                self._on_late_log()
            else:
                self.remove_replica(topic, partition)

    def remove_replica(self, topic: TopicImage, image: PartitionImage) -> None:
        """Deletes the log of a partition that a reassignment has moved to other brokers."""
        known = self._partitions.get((topic.name, image.index))
        if known is not None and known.topic_id == topic.id:
            known.lead_or_follow(leadership_of(image))  # requests get NOT_LEADER_OR_FOLLOWER
            logger.info("%s: this broker is no longer a replica; its log is deleted", known)
        self.drop_partition(topic, image.index)

    def update_partition(
        self, topic: TopicImage, image: PartitionImage, settings: TopicSettings
    ) -> None:
        name = (topic.name, image.index)
        known = self._partitions.get(name)
        if known is not None and known.topic_id == topic.id:
            before = known.leadership
            known.lead_or_follow(leadership_of(image))
            if self.observer is not None and known.leadership is not before:
                self.observer.leadership_changed(known)
            return
        try:
            log = self.open_log(topic, image.index, settings)
        except OSError as problem:
            if name not in self._without_log:  # the first of many attempts
                logger.warning(
                    "%s-%d: log cannot be opened (%s); clients get UNKNOWN_TOPIC_OR_PARTITION; "
                    "retrying every second",
                    *name,
                    problem,
                )
            self._without_log[name] = WithoutLog(topic, image, settings)
            self.health.note(
                f"{topic.name}-{image.index}", problem, other_can_lead=len(image.in_sync) > 1
            )
            return
        if self._without_log.pop(name, None) is not None:
            logger.info("%s-%d: log opened; the partition is served", *name)
        partition = self._partitions[name] = Partition(
            topic=topic.name,
            index=image.index,
            topic_id=topic.id,
            node_id=self.node_id,
            log=log,
            leadership=leadership_of(image),
            settings=settings,
            leader_context=self.leader_context,
            generation=self.generation,
            high_watermark=self.directory.high_watermark(name),
            flush_threads=self.flush_threads,
            off_loop=self.off_loop,
        )
        if log.is_flush_due:  # after a crash
            partition.flushing.begin()
        if self.observer is not None:
            self.observer.leadership_changed(partition)

    async def until_flushed(self) -> None:
        """Waits for the flushes that `flush.messages` requires after a crash.

        Acknowledged records are visible only after these flushes.
        """
        running = [it.flushing.begin() for it in self if it.log.is_flush_due]
        if running:
            await asyncio.wait(running)

    def try_again(self) -> None:
        """Opens logs that could not be opened before: the disk may have free space again."""
        waiting_before = len(self._without_log)
        for waiting in tuple(self._without_log.values()):
            self.update_partition(waiting.topic, waiting.image, waiting.settings)
        if len(self._without_log) < waiting_before:
            self._on_late_log()

    def open_log(self, topic: TopicImage, index: int, settings: TopicSettings) -> Log:
        """Returns the log on disk, or a new one; a log with another topic id becomes a stray."""
        name, now_ms = (topic.name, index), self.clock.now_ms()
        is_replicated = len(topic.partitions[index].replicas) > 1
        configuration = log_configuration(settings, is_replicated=is_replicated)
        if name in self.directory and not self._is_of(name, topic):
            self._set_stray(name)
        if name not in self.directory:
            return self.directory.create_log(
                name, topic_id=topic.id, configuration=configuration, now_ms=now_ms
            )
        if self.directory.topic_id(name) is None:
            self.directory.write_topic_id(name, topic.id)
        return self.directory.log(name, now_ms=now_ms, configuration=configuration)

    def topic_settings(self, image: ClusterImage, topic: str) -> TopicSettings:
        return resolve_topic(self.settings, image.configurations.get((TOPIC_RESOURCE, topic), {}))

    def change_defaults(self, settings: Settings, image: ClusterImage) -> None:
        """Applies changed properties of the broker, which are the defaults of topics."""
        self.settings = settings
        self.flush_threads.resize(settings.num_io_threads)
        self.off_loop.resize(settings.num_io_threads)
        for topic in image.topics:
            self.reconfigure(image, topic)

    def reconfigure(self, image: ClusterImage, topic: str) -> None:
        settings = self.topic_settings(image, topic)
        found = image.topics.get(topic)
        for index in range(len(found.partitions) if found else 0):
            waiting = self._without_log.get((topic, index))
            if waiting is not None:
                self._without_log[topic, index] = waiting._replace(settings=settings)
            partition = self._partitions.get((topic, index))
            if partition is not None:
                partition.configure(settings, log_configuration(settings))

    def drop(self, topic: TopicImage) -> None:
        """Deletes the logs of a deleted topic. Open readers keep their segments until they end."""
        run_to_end(self.drop_in_slices([topic]))

    def drop_in_slices(
        self, topics: Iterable[TopicImage], note_failure: NoteFailure | None = None
    ) -> Slices[None]:
        """Like `drop`, in slices; `note_failure` receives errors, if given."""
        cost = 0
        for topic in topics:
            self._topic_names.pop(topic.id, None)
            for image in topic.partitions:
                try:
                    self.drop_partition(topic, image.index)
                except Exception:  # logged and retried
                    if note_failure is None:
                        raise
                    again = partial(self.drop_partition, topic, image.index)
                    note_failure(f"{topic.name}-{image.index} (deleted)", again)
                cost += COST_OF_A_DELETED_LOG
                if cost >= COST_PER_SLICE:
                    cost = 0
                    yield

    def drop_partition(self, topic: TopicImage, index: int) -> None:
        name = topic.name, index
        waiting = self._without_log.get(name)
        if waiting is not None and waiting.topic.id == topic.id:
            del self._without_log[name]
        partition = self._partitions.get(name)
        if partition is not None and partition.topic_id == topic.id:
            del self._partitions[name]
            self.generation.advance()
            if self.observer is not None:
                self.observer.removed(partition)
            partition.end_waits()
        is_recreated = name in self._partitions or name in self._without_log
        if not is_recreated and name in self.directory and self._is_of(name, topic):
            self.directory.delete_log(name, now_ms=self.clock.now_ms())


def log_configuration(settings: TopicSettings, *, is_replicated: bool = False) -> LogConfiguration:
    """Returns the settings of a topic that its log uses."""
    return LogConfiguration(
        segment_bytes=settings.segment_bytes,
        segment_ms=settings.segment_ms,
        segment_jitter_ms=settings.segment_jitter_ms,
        segment_index_bytes=settings.segment_index_bytes,
        index_interval_bytes=settings.index_interval_bytes,
        retention_ms=settings.retention_ms,
        retention_bytes=settings.retention_bytes,
        flush_messages=settings.flush_messages,
        flush_ms=settings.flush_ms,
        file_delete_delay_ms=settings.file_delete_delay_ms,
        message_timestamp_type=TimestampSource(settings.message_timestamp_type),
        max_message_bytes=settings.max_message_bytes,
        cleanup_policy=frozenset(CleanupPolicy(it) for it in settings.cleanup_policy),
        min_cleanable_dirty_ratio=settings.min_cleanable_dirty_ratio,
        min_compaction_lag_ms=settings.min_compaction_lag_ms,
        max_compaction_lag_ms=settings.max_compaction_lag_ms,
        delete_retention_ms=settings.delete_retention_ms,
        ends_at_gaps=is_replicated,
    )
