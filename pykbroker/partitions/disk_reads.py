"""Reads of a partition in a thread, because they wait for the disk or take long.

A request whose read raises `NotCached` waits for the thread while the event loop serves others. A
read error, or a segment file that became shorter, fails only the requests of its partition.
"""

from __future__ import annotations

import errno
from functools import partial
from typing import TYPE_CHECKING, Concatenate, NamedTuple, ParamSpec, TypeVar

from pykbroker.partitions.isolation import Isolation, Reader
from pykbroker.partitions.off_loop import HeldBytes
from pykbroker.partitions.reading import NO_BYTES, Fetched, reads_succeed, refusal_of_read
from pykbroker_protocol.errors import ErrorCode, Refusal
from pykbroker_storage.batch_scan import CorruptLog
from pykbroker_storage.filesystem import NotCached
from pykbroker_storage.log import LogClosed, OffsetOutOfRange
from pykbroker_storage.transaction_index import MalformedTransactionIndex

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from pykbroker.partitions.partition import Partition
    from pykbroker_storage.log import Log
    from pykbroker_storage.read_view import ReadView
    from pykbroker_storage.time_lookup import TimedOffset
    from pykbroker_storage.transaction_index import AbortedTransaction

T = TypeVar("T")
P = ParamSpec("P")

READ_BYTES_MAX = 1024 * 1024
"""Bytes of one read unless its first batch is larger. A slow disk (4 MB/s) needs 0.25 s for them,
which delays the other readers."""
TRIES_MAX = 3
"""Attempts of a read whose segments retention or compaction removes."""


class Read(NamedTuple):
    """Records read by a thread, as a copy."""

    records: HeldBytes
    next_offset: int
    aborted: Sequence[AbortedTransaction]


async def read_from_disk(
    partition: Partition,
    offset: int,
    *,
    bytes_max: int,
    isolation: Isolation,
    first_batch_whole: bool,
    reader: Reader = Reader.CONSUMER,
) -> Fetched | Refusal:
    """Like `reading.read`, but waits for the disk in a thread and reads at most READ_BYTES_MAX."""
    log = partition.log
    stable = partition.last_stable_offset
    end_offset = partition.end_for(reader, isolation, stable)
    skips_aborted = isolation is Isolation.READ_COMMITTED and reader is Reader.CONSUMER

    def work(view: ReadView) -> Read | None:
        found = view.read(
            offset,
            bytes_max=min(bytes_max, READ_BYTES_MAX),
            end_offset=end_offset,
            first_batch_whole=first_batch_whole,
        )
        if found is None:
            return None
        aborted = view.aborted_transactions(offset, found.next_offset) if skips_aborted else ()
        return Read(HeldBytes(found.view), found.next_offset, aborted)

    try:
        found = await run_on_read_view(log, partition.off_loop.read, work, offset)
    except LogClosed:
        return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    except MalformedTransactionIndex:
        log.aborted_transactions(offset, end_offset)  # rebuilds the index; the client retries
        return Refusal(ErrorCode.KAFKA_STORAGE_ERROR)
    except (OffsetOutOfRange, CorruptLog, OSError) as error:
        return refusal_of_read(partition, offset, error)
    reads_succeed(partition)
    return Fetched(
        NO_BYTES if found is None else copy_or_view(partition, offset, found),
        partition.high_watermark,
        stable,
        log.log_start_offset,
        (found.aborted if found else ()) if skips_aborted else None,
    )


def copy_or_view(partition: Partition, offset: int, found: Read) -> memoryview:
    """Returns the copied records, or a view of the file if all copies take too much memory."""
    held = partition.off_loop.hold(found.records)
    if held is not None:
        return held
    try:
        same = partition.log.read_cached(
            offset, bytes_max=len(found.records), end_offset=found.next_offset
        )
    except (NotCached, OffsetOutOfRange, OSError):
        same = None
    return memoryview(found.records) if same is None else same.view


async def record_at(partition: Partition, timestamp_ms: int | None) -> TimedOffset | None:
    """Returns the first record at or after a time; for None the one with the largest timestamp.

    Raises `LogClosed`, `CorruptLog`, `CorruptBatch` and `OSError`.
    """

    def work(view: ReadView, pause: Callable[[], None]) -> TimedOffset | None:
        if timestamp_ms is None:
            return view.latest_timestamp_record(pause)
        return view.offset_at_timestamp(timestamp_ms, pause)

    return await run_on_read_view(partition.log, partition.off_loop.search, work)


async def run_on_read_view(
    log: Log,
    run: Callable[[Callable[P, T]], Awaitable[T]],
    work: Callable[Concatenate[ReadView, P], T],
    offset: int | None = None,
) -> T:
    """Runs `work` on a read view of the log (from an offset on) and returns its result.

    Raises the errors of `work`, `OffsetOutOfRange` and `LogClosed`.
    """
    for _ in range(TRIES_MAX):
        view = log.read_view(offset)
        try:
            result = await run(partial(view.use, work))
        except Exception:
            if log.merge(view):
                raise
        else:
            if log.merge(view):
                return result
    raise OSError(errno.EAGAIN, "segments were deleted or replaced while they were read")
