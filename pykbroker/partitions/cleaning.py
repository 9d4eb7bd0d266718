"""Compacts the logs of topics with the policy compact, the dirtiest first, beside the traffic."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from pykbroker_protocol.records.corrupt import CorruptBatch
from pykbroker_storage.compaction import (
    Cleanable,
    Compaction,
    Overtaken,
    Pace,
    Replacement,
    Stopped,
    find_cleanable,
)
from pykbroker_storage.filesystem import DiskFull

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pykbroker.clock import Clock
    from pykbroker.partitions.partition import Partition
    from pykbroker.settings import Settings
    from pykbroker_storage.log_directory import LogDirectory

logger = logging.getLogger(__name__)

T = TypeVar("T")

PARTITIONS_PER_BREATH = 100


class Board(Protocol):
    """Of all the partitions that a node holds, what compaction asks."""

    @property
    def settings(self) -> Settings: ...
    @property
    def directory(self) -> LogDirectory: ...
    @property
    def clock(self) -> Clock: ...

    def __iter__(self) -> Iterator[Partition]: ...


class Candidate(NamedTuple):
    partition: Partition
    cleanable: Cleanable


class Cleaner:
    """One log at a time. What takes long runs on another thread, held back by a `Pace`."""

    def __init__(self, partitions: Board) -> None:
        self.partitions = partitions
        self.clock = partitions.clock
        # By topic id: a topic of the same name, made anew, deserves another try.
        self.uncleanable: set[tuple[bytes, int]] = set()

    async def run(self) -> None:
        while True:
            try:
                has_cleaned = await self.clean_dirtiest()
            except OSError:
                logger.exception("compaction cannot look at the logs and tries again later")
                has_cleaned = False
            if not has_cleaned:
                await asyncio.sleep(self.partitions.settings.log_cleaner_backoff_ms / 1000)

    async def clean_dirtiest(self) -> bool:
        """Whether a log was compacted, so that another may be waiting."""
        candidates = await self.candidates()
        if not candidates:
            return False
        dirtiest = max(candidates, key=lambda it: it.cleanable.dirty_ratio)
        return await self.clean(dirtiest.partition, dirtiest.cleanable)

    async def candidates(self) -> list[Candidate]:
        """Every log with enough to gain; requests are let in between."""
        found = []
        known = set()
        for count, partition in enumerate(self.partitions, 1):
            known.add(name_of(partition))
            cleanable = None
            if name_of(partition) not in self.uncleanable:
                cleanable = self.cleanable(partition)
            if cleanable is not None:
                found.append(Candidate(partition, cleanable))
            if not count % PARTITIONS_PER_BREATH:
                await asyncio.sleep(0)
        self.uncleanable &= known
        return found

    def cleanable(self, partition: Partition) -> Cleanable | None:
        """What compaction may work on in a log; None if that is not worthwhile."""
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

    async def clean(self, partition: Partition, cleanable: Cleanable) -> bool:
        """Compacts one log; an error is told once, and the log left alone from then on."""
        settings = self.partitions.settings
        pace = Pace(bytes_per_second=settings.log_cleaner_io_max_bytes_per_second)
        # So that whoever flushes meanwhile has nothing to do with the segments that go.
        await asyncio.to_thread(partition.log.flush, cleanable.end_offset)
        compaction = Compaction.begin(
            partition.log,
            cleanable,
            now_ms=self.clock.now_ms(),
            map_bytes_max=settings.log_cleaner_dedupe_buffer_size,
            pace=pace,
        )
        try:
            await self.work_through(compaction, pace)
        except Overtaken:
            return False
        except DiskFull as error:
            logger.warning("%s: cannot be compacted for now: %s", partition, error)
            return False
        except (OSError, CorruptBatch) as error:
            if not compaction.is_overtaken():
                self.uncleanable.add(name_of(partition))
                logger.warning("%s: cannot be compacted, so it will grow: %s", partition, error)
            return False
        await self.note(partition, compaction)
        return True

    async def work_through(self, compaction: Compaction, pace: Pace) -> None:
        await on_thread(pace, compaction.note_keys)
        while (replacement := await on_thread(pace, compaction.write_next)) is not None:
            compaction.swap_in(replacement)

    async def note(self, partition: Partition, compaction: Compaction) -> None:
        """Says up to where the log is clean, once the new names of its files are durable."""
        log, directory = partition.log, self.partitions.directory
        tally = compaction.tally
        logger.info(
            "%s: compacted up to offset %d; %d bytes were read, %d written",
            partition,
            compaction.end_offset,
            tally.bytes_read,
            tally.bytes_written,
        )
        if tally.keyless_records:
            logger.warning("%s: %d records without a key went", partition, tally.keyless_records)
        try:
            await asyncio.to_thread(log.filesystem.sync_directory, log.directory)
        except FileNotFoundError:
            return  # the log was deleted meanwhile
        name = (partition.topic, partition.index)
        directory.note_first_dirty_offset(name, compaction.end_offset)
        await asyncio.to_thread(directory.save_first_dirty_offsets, directory.first_dirty_offsets())


def name_of(partition: Partition) -> tuple[bytes, int]:
    return partition.topic_id, partition.index


async def on_thread(pace: Pace, work: Callable[[], T]) -> T:
    """The outcome of work on another thread; cancelled, it is stopped and waited for."""
    working = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        pace.stop()
        (outcome,) = await asyncio.gather(working, return_exceptions=True)
        if isinstance(outcome, Replacement):
            outcome.cleaned.discard()
        elif isinstance(outcome, BaseException) and not isinstance(outcome, Stopped):
            logger.debug("compaction failed while it was being stopped: %s", outcome)
        raise
