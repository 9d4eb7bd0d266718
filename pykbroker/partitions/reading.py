"""Reads of stored records that are in memory; `disk_reads` waits for the disk in a thread."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

from pykbroker.partitions.isolation import Isolation, Reader
from pykbroker_protocol.errors import ErrorCode, Refusal
from pykbroker_storage.batch_scan import CorruptLog
from pykbroker_storage.log import OffsetOutOfRange

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pykbroker.partitions.partition import Partition
    from pykbroker_storage.transaction_index import AbortedTransaction

logger = logging.getLogger(__name__)

NO_BYTES = memoryview(b"")


class Fetched(NamedTuple):
    """The result of a read: records, and the offsets that a Fetch response reports."""

    records: memoryview
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: Sequence[AbortedTransaction] | None
    """Transactions whose records the reader skips; None for readers that see all records."""


def read(
    partition: Partition,
    offset: int,
    *,
    bytes_max: int,
    isolation: Isolation,
    first_batch_whole: bool,
    reader: Reader = Reader.CONSUMER,
) -> Fetched | Refusal:
    """Returns whole batches from an offset on, up to the offset that this reader may see.

    Raises `NotCached` instead of waiting for the disk; `disk_reads` reads in a thread.
    """
    log = partition.log
    stable = partition.last_stable_offset
    end_offset = partition.end_for(reader, isolation, stable)
    try:
        found = log.read_cached(
            offset,
            bytes_max=bytes_max,
            end_offset=end_offset,
            first_batch_whole=first_batch_whole,
        )
        aborted = None
        if isolation is Isolation.READ_COMMITTED and reader is Reader.CONSUMER:
            aborted = log.aborted_cached(offset, found.next_offset) if found else ()
    except (OffsetOutOfRange, CorruptLog, OSError) as error:
        return refusal_of_read(partition, offset, error)
    records = NO_BYTES if found is None else found.view
    return Fetched(records, partition.high_watermark, stable, log.log_start_offset, aborted)


def without_records(partition: Partition, isolation: Isolation, reader: Reader) -> Fetched:
    """Returns the result without records, for example if the response is full."""
    skips_aborted = isolation is Isolation.READ_COMMITTED and reader is Reader.CONSUMER
    return Fetched(
        NO_BYTES,
        partition.high_watermark,
        partition.last_stable_offset,
        partition.log.log_start_offset,
        () if skips_aborted else None,
    )


def refusal_of_read(partition: Partition, offset: int, error: Exception) -> Refusal:
    """Returns the error of a failed read; logs the first of several failures."""
    if isinstance(error, OffsetOutOfRange):
        return Refusal(ErrorCode.OFFSET_OUT_OF_RANGE)
    partition.leader.context.health.note(partition, error)
    is_corrupt = isinstance(error, CorruptLog)
    code = ErrorCode.CORRUPT_MESSAGE if is_corrupt else ErrorCode.KAFKA_STORAGE_ERROR
    if not partition.read_fails:
        partition.read_fails = True
        logger.error(
            "%s: stored records cannot be read at offset %d (%s); clients get %s; check the disk; "
            "further failed reads are not logged until a read from disk succeeds",
            partition,
            offset,
            error,
            code.name,
        )
    return Refusal(code)


def reads_succeed(partition: Partition) -> None:
    if partition.read_fails:
        partition.read_fails = False
        logger.info("%s: stored records can be read again", partition)
