"""Periodic work on logs: retention, flushes, checkpoints, expiry and removal of deleted files.

Each round does short work for one partition after the other on the event loop and yields between
them; threads wait for the disk. An error concerns one partition only.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING

from pykbroker.partitions.recurring_errors import RecurringErrors

if TYPE_CHECKING:
    from collections.abc import Callable

    from pykbroker.partitions.cleaning import Rewriter
    from pykbroker.partitions.partition import Partition
    from pykbroker.partitions.partition_registry import Partitions
    from pykbroker.settings import Settings
    from pykbroker_storage.log import Log
    from pykbroker_storage.partition_files import DeferredSnapshot

logger = logging.getLogger(__name__)

SWEEP_MS = 1_000
TRY_AGAIN_MS = 1_000
FLUSH_LOOK_MS_MAX = 1_000
LOOK_MS_MAX = 1_000
PARTITIONS_PER_SLICE = 100

# Names in log lines.
RETENTION = "retention"
CHECKPOINT = "writing the checkpoints"
FLUSH = "flushing"
SNAPSHOT = "writing the producer snapshot"
SWEEP = "removing deleted files"
TRY_AGAIN = "opening missing logs"
EXPIRY = "expiry of idle producers"


class Upkeep:
    """The periodic work of a node, each kind in a task of its own."""

    def __init__(
        self,
        partitions: Partitions,
        new_process: Callable[[], Rewriter] | None = None,
        *,
        directory_lost: Callable[[], None] = lambda: None,
    ) -> None:
        """`new_process` replaces the compaction process, for simulations.

        `directory_lost` is called when the data directory no longer belongs to this process.
        """
        self.directory_lost = directory_lost
        self.partitions = partitions
        self.new_process = new_process
        self.clock = partitions.clock
        self.errors = RecurringErrors()

    @property
    def settings(self) -> Settings:
        """The current settings; some change while the broker runs."""
        return self.partitions.settings

    def start(self) -> list[asyncio.Task[None]]:
        settings = self.settings
        rounds: list[tuple[str, Callable[[], object], int]] = [
            (RETENTION, self.enforce_retention, settings.log_retention_check_interval_ms),
            (CHECKPOINT, self.checkpoint, settings.replica_high_watermark_checkpoint_interval_ms),
            (FLUSH, self.flush, FLUSH_LOOK_MS_MAX),
            (SWEEP, self.sweep, SWEEP_MS),
            (TRY_AGAIN, self.partitions.try_again, TRY_AGAIN_MS),
            (EXPIRY, self.expire_producers, settings.producer_id_expiration_check_interval_ms),
        ]
        tasks = [asyncio.create_task(self.repeat(*it)) for it in rounds]
        if self.settings.log_cleaner_enable:
            tasks.append(asyncio.create_task(self.compact()))
        return tasks

    async def compact(self) -> None:
        """Imports compaction only when a compacted log exists, to keep the start short."""
        while not await self.has_compacted_log():
            await self.clock.sleep(min(self.settings.log_cleaner_backoff_ms, LOOK_MS_MAX) / 1000)
        from pykbroker.partitions.cleaning import Cleaner  # noqa: PLC0415

        await Cleaner(self.partitions, self.new_process).run()

    async def has_compacted_log(self) -> bool:
        for count, partition in enumerate(self.partitions):
            if partition.log.configuration.is_compacted:
                return True
            if count % PARTITIONS_PER_SLICE == PARTITIONS_PER_SLICE - 1:
                await asyncio.sleep(0)
        return False

    async def repeat(self, name: str, work: Callable[[], object], each_ms: int) -> None:
        while True:
            await self.clock.sleep(each_ms / 1000)
            with self.errors.caught(name, self.partitions.directory.path):
                outcome = work()
                if asyncio.iscoroutine(outcome):
                    await outcome

    async def each(self, name: str, work: Callable[[Partition], object]) -> None:
        """Runs `work` for each partition and yields to requests in between."""
        for count, partition in enumerate(self.partitions):
            with self.errors.caught(name, partition):
                work(partition)
            if count % PARTITIONS_PER_SLICE == PARTITIONS_PER_SLICE - 1:
                await asyncio.sleep(0)

    async def enforce_retention(self) -> None:
        now_ms = self.clock.now_ms()
        await self.each(RETENTION, lambda it: enforce_retention(it, now_ms))

    async def expire_producers(self) -> None:
        now_ms, age_ms = self.clock.now_ms(), self.settings.producer_id_expiration_ms
        await self.each(EXPIRY, lambda it: it.expire_producers(now_ms, age_ms))

    async def flush(self) -> None:
        for count, partition in enumerate(self.partitions):
            if count % PARTITIONS_PER_SLICE == PARTITIONS_PER_SLICE - 1:
                await asyncio.sleep(0)
            if partition.log.deferred_snapshot is not None:
                with self.errors.caught(SNAPSHOT, partition):
                    await save_producers(partition.log, partition.log.deferred_snapshot)
            with self.errors.caught(FLUSH, partition), suppress(OSError):  # the partition logs it
                upto = partition.log.flush_due(self.clock.now_ms())
                if upto is not None:
                    await partition.flushing.until_flushed(upto)

    async def checkpoint(self) -> None:
        directory = self.partitions.directory
        known = directory.offset_snapshot(self.partitions.high_watermarks())
        await asyncio.to_thread(directory.save_offsets, known)

    async def sweep(self) -> None:
        if not self.partitions.directory.keep_lock():
            self.directory_lost()
        await asyncio.to_thread(self.partitions.directory.sweep, self.clock.now_ms())


async def save_producers(log: Log, snapshot: DeferredSnapshot) -> None:
    """Writes a producer snapshot; encodes it in slices and writes it in a thread."""
    is_written = False
    try:
        for _ in snapshot.encode():
            await asyncio.sleep(0)
        await asyncio.to_thread(snapshot.write)
        is_written = True
    except FileNotFoundError:
        if not log.is_closed:
            raise  # else the log was deleted meanwhile
    finally:
        log.finish_snapshot(snapshot, is_written=is_written)


def enforce_retention(partition: Partition, now_ms: int) -> None:
    count = partition.log.enforce_retention(now_ms, partition.high_watermark)
    if count:
        logger.info(
            "%s: segments removed by retention: %d; the log starts at offset %d",
            partition,
            count,
            partition.log.log_start_offset,
        )
