"""Compacts the logs of topics with `cleanup.policy=compact`, those with most dirty bytes first."""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from pykbroker.partitions.recurring_errors import STORAGE_ERRORS, RecurringErrors
from pykbroker_protocol.records.corrupt import CorruptBatch
from pykbroker_storage.compaction import (
    Cleanable,
    Compaction,
    CompactionLimits,
    CompactionProcess,
    CompactionStats,
    Job,
    OffsetMapBuilt,
    ProcessEnded,
    Rewritten,
    SourcesChanged,
    find_cleanable,
)
from pykbroker_storage.filesystem import is_transient

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pykbroker.clock import Clock
    from pykbroker.partitions.partition import Partition
    from pykbroker.settings import Settings
    from pykbroker_storage.log_directory import LogDirectory

logger = logging.getLogger(__name__)

T = TypeVar("T")

PARTITIONS_PER_SLICE = 100
# The longest time until a change of the settings takes effect.
LOOK_SECONDS_MAX = 1.0
# `log.cleaner.backoff.ms=0` would poll without a pause.
REST_MS_MIN = 1
# Threads that wait for compaction processes; further logs wait for a thread.
WAITING_MAX = 64


class CompactedPartitions(Protocol):
    """The partitions of a node, as compaction uses them."""

    @property
    def settings(self) -> Settings: ...
    @property
    def directory(self) -> LogDirectory: ...
    @property
    def clock(self) -> Clock: ...

    def __iter__(self) -> Iterator[Partition]: ...


class Rewriter(Protocol):
    """Rewrites the segments of one log at a time; its methods may block."""

    def begin(self, job: Job) -> OffsetMapBuilt: ...
    def next(self) -> Rewritten | CompactionStats: ...
    def stop(self) -> None: ...
    def end(self) -> None: ...


class Candidate(NamedTuple):
    partition: Partition
    cleanable: Cleanable


class Cleaner:
    """Compacts up to `log.cleaner.threads` logs at a time, each in a process."""

    def __init__(
        self, partitions: CompactedPartitions, new_process: Callable[[], Rewriter] | None = None
    ) -> None:
        self.partitions = partitions
        self.new_process = new_process or CompactionProcess
        self.clock = partitions.clock
        self.errors = RecurringErrors()
        # By topic id, so that a new topic with the same name is compacted.
        self.uncleanable: set[tuple[bytes, int]] = set()
        self.in_work: set[tuple[bytes, int]] = set()
        self.lanes: set[int] = set()
        self.writing_down = asyncio.Lock()
        # A large log takes minutes. The few default threads of the event loop are for flushes of
        # the cluster metadata.
        self.threads = ThreadPoolExecutor(WAITING_MAX, "compaction")

    @property
    def settings(self) -> Settings:
        return self.partitions.settings

    async def run(self) -> None:
        try:
            async with asyncio.TaskGroup() as tasks:
                while True:
                    for lane in set(range(self.settings.log_cleaner_threads)) - self.lanes:
                        self.lanes.add(lane)
                        tasks.create_task(self.run_lane(lane))
                    await self.clock.sleep(LOOK_SECONDS_MAX)
        finally:
            self.threads.shutdown(wait=False)

    async def run_lane(self, lane: int) -> None:
        """Compacts one log after the other; ends the process while no log needs compaction."""
        process = self.new_process()
        await self.clock.sleep(0)  # from here on, a moved clock waits for this task
        try:
            while lane < self.settings.log_cleaner_threads:
                has_cleaned = False
                with self.errors.caught("compaction", self.partitions.directory.path):
                    has_cleaned = await self.clean_dirtiest(process)
                if not has_cleaned:
                    await self.on_thread(process, process.end)
                    await self.rest()
        finally:
            self.lanes.discard(lane)
            process.end()

    async def rest(self) -> None:
        began = self.clock.monotonic()
        while True:
            rested_ms = (self.clock.monotonic() - began) * 1000
            rest_ms = max(self.settings.log_cleaner_backoff_ms, REST_MS_MIN)
            left_seconds = (rest_ms - rested_ms) / 1000
            if left_seconds <= 0:
                return
            await self.clock.sleep(min(left_seconds, LOOK_SECONDS_MAX))

    async def clean_dirtiest(self, process: Rewriter) -> bool:
        """Returns True if it has compacted a log, so that another may need it."""
        candidates = [it for it in await self.candidates() if self.is_free(it.partition)]
        if not candidates:
            return False
        partition, cleanable = max(candidates, key=lambda it: it.cleanable.dirty_ratio)
        self.in_work.add(name_of(partition))
        try:
            return await self.clean(partition, cleanable, process)
        finally:
            self.in_work.discard(name_of(partition))

    def is_free(self, partition: Partition) -> bool:
        return name_of(partition) not in self.uncleanable | self.in_work

    async def candidates(self) -> list[Candidate]:
        """Returns all logs that are worth compacting; yields to requests meanwhile."""
        found = []
        known = set()
        for count, partition in enumerate(self.partitions, 1):
            known.add(name_of(partition))
            try:
                cleanable = self.cleanable(partition) if self.is_free(partition) else None
            except Exception as error:  # noqa: BLE001 - any error concerns one log
                self.note_failure(partition, error)
                continue
            if cleanable is not None:
                found.append(Candidate(partition, cleanable))
            if not count % PARTITIONS_PER_SLICE:
                await asyncio.sleep(0)
        self.uncleanable &= known
        return found

    def cleanable(self, partition: Partition) -> Cleanable | None:
        """Returns the part of a log that compaction may rewrite; None if it is not worthwhile."""
        log = partition.log
        if not log.configuration.is_compacted:
            return None
        cleanable = find_cleanable(
            log.segments()[:-1],
            log.configuration,
            first_dirty_offset=self.partitions.directory.first_dirty_offset(
                (partition.topic, partition.index)
            ),
            log_start_offset=log.log_start_offset,
            log_end_offset=log.log_end_offset,
            last_stable_offset=partition.last_stable_offset,
            now_ms=self.clock.now_ms(),
        )
        worthwhile = cleanable.is_worthwhile(log.configuration.min_cleanable_dirty_ratio)
        return cleanable if worthwhile else None

    async def clean(self, partition: Partition, cleanable: Cleanable, process: Rewriter) -> bool:
        """Compacts one log and returns True on success."""
        compaction = None
        try:
            # A flush during compaction then has no work in the segments that are replaced.
            await partition.flushing.until_flushed(cleanable.end_offset)
            if partition.log.is_closed:
                return False  # deleted meanwhile
            compaction = Compaction.begin(
                partition.log, cleanable, now_ms=self.clock.now_ms(), bounds=self.bounds()
            )
            report = await self.work_through(compaction, process)
        except SourcesChanged:
            return False
        except Exception as error:  # noqa: BLE001 - an internal error, too, concerns one log
            if not was_deleted(compaction, error):
                self.note_failure(partition, error)
            return False
        await self.note(partition, report)
        return True

    def note_failure(self, partition: Partition, error: Exception) -> None:
        """Retries after a transient error; after any other, skips the log until the next start."""
        if isinstance(error, ProcessEnded) or is_transient(error):
            logger.warning(
                "%s: compaction failed (%s); retrying within %g s",
                partition,
                error,
                max(self.settings.log_cleaner_backoff_ms, REST_MS_MIN) / 1000,
            )
            return
        self.uncleanable.add(name_of(partition))
        reason = str(error) if isinstance(error, STORAGE_ERRORS) else repr(error)
        logger.warning(
            "%s: compaction failed (%s); the log is not compacted until the next start; check it "
            "with 'pykbroker log dump'",
            partition,
            reason,
        )

    def bounds(self) -> CompactionLimits:
        """The limits of one log: an equal share of the limits of all."""
        lanes = max(self.settings.log_cleaner_threads, 1)
        return CompactionLimits(
            map_bytes_max=self.settings.log_cleaner_dedupe_buffer_size // lanes,
            bytes_per_second=self.settings.log_cleaner_io_max_bytes_per_second / lanes,
        )

    async def work_through(self, compaction: Compaction, process: Rewriter) -> Report:
        """Runs one compaction; an error or cancellation ends the process."""
        now_seconds = self.clock.monotonic
        began = now_seconds()
        try:
            map_built = await self.on_thread(process, lambda: process.begin(compaction.job))
            while isinstance(step := await self.on_thread(process, process.next), Rewritten):
                compaction.swap_in(step)
        except BaseException:
            process.end()
            compaction.abandon()
            raise
        return Report(
            first_dirty_offset=compaction.job.first_dirty_offset,
            end_offset=map_built.end_offset,
            is_table_full=map_built.end_offset < compaction.job.end_offset,
            bytes_before=compaction.bytes_before(map_built),
            seconds=now_seconds() - began,
            stats=step,
        )

    async def on_thread(self, process: Rewriter, wait: Callable[[], T]) -> T:
        """Runs a blocking call of the process in a thread; stops the process on cancellation."""
        waiting = asyncio.get_running_loop().run_in_executor(self.threads, wait)
        try:
            return await asyncio.shield(waiting)
        except asyncio.CancelledError:
            process.stop()
            with suppress(ProcessEnded, OSError, CorruptBatch):
                await waiting
            raise

    async def note(self, partition: Partition, report: Report) -> None:
        """Writes the cleaner checkpoint once the renamed files are durable."""
        log, directory = partition.log, self.partitions.directory
        log_report(partition, report)
        try:
            await asyncio.to_thread(log.filesystem.sync_directory, log.directory)
        except FileNotFoundError:
            return  # the log was deleted meanwhile
        if log.is_closed:
            return  # likewise, and a topic with the same name was created
        name = (partition.topic, partition.index)
        directory.set_first_dirty_offset(name, report.end_offset)
        async with self.writing_down:
            offsets = directory.first_dirty_offsets()
            await asyncio.to_thread(directory.save_first_dirty_offsets, offsets)


class Report(NamedTuple):
    """The result of one compaction, for the log."""

    first_dirty_offset: int
    end_offset: int
    is_table_full: bool
    bytes_before: int
    seconds: float
    stats: CompactionStats


def log_report(partition: Partition, report: Report) -> None:
    stats = report.stats
    logger.info(
        "%s: compacted offsets %d to %d in %.1f s: kept %d of %d records, %d of %d bytes",
        partition,
        report.first_dirty_offset,
        report.end_offset,
        report.seconds,
        stats.records_kept,
        stats.records_read,
        stats.bytes_written,
        report.bytes_before,
    )
    if report.is_table_full:
        logger.info(
            "%s: keys exceed log.cleaner.dedupe.buffer.size; another compaction round follows",
            partition,
        )
    if stats.keyless_records:
        logger.warning(
            "%s: compaction removed records without a key: %d (not allowed in a compacted topic)",
            partition,
            stats.keyless_records,
        )


def was_deleted(compaction: Compaction | None, error: Exception) -> bool:
    """Returns True if the error is due to the deletion of the log or of its segments."""
    if compaction is None:
        return isinstance(error, FileNotFoundError)
    return compaction.sources_changed()


def name_of(partition: Partition) -> tuple[bytes, int]:
    return partition.topic_id, partition.index
