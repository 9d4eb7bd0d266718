"""Reads the partition of a coordinator from its start, in slices."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from pykbroker.coordinators.records import UnknownRecord, decode_record
from pykbroker.partitions.disk_reads import run_on_read_view
from pykbroker_protocol.records.batch import iterate_batches

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from pykbroker.clock import Clock
    from pykbroker.coordinators.records import RecordType
    from pykbroker.partitions.partition import Partition
    from pykbroker_protocol.message import Message
    from pykbroker_protocol.records.batch import RecordBatch
    from pykbroker_storage.read_view import ReadView
    from pykbroker_storage.segment import LogSlice

logger = logging.getLogger(__name__)

BYTES_PER_SLICE = 128 * 1024
"""About 20 ms of replay; other requests are served in between."""
READ_AGAIN_SECONDS = 1.0
"""Delay until the next read after a read error."""


async def stored_batches(partition: Partition, clock: Clock) -> AsyncIterator[RecordBatch]:
    log = partition.log
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        found = await _read(partition, offset, clock)
        if found is None:
            break
        for batch in iterate_batches(found.view):
            yield batch
            offset = batch.next_offset
        await asyncio.sleep(0)


async def _read(partition: Partition, offset: int, clock: Clock) -> LogSlice | None:
    """Reads the next batches in a thread; retries until the read succeeds."""
    end_offset = partition.log.log_end_offset

    def work(frozen: ReadView) -> LogSlice | None:
        return frozen.read(offset, bytes_max=BYTES_PER_SLICE, end_offset=end_offset)

    while True:
        try:
            return await run_on_read_view(partition.log, partition.off_loop.read, work, offset)
        except OSError as error:
            logger.warning(
                "%s: coordinator state cannot be read at offset %d (%s); clients get "
                "COORDINATOR_LOAD_IN_PROGRESS; retrying every %g s",
                partition,
                offset,
                error,
                READ_AGAIN_SECONDS,
            )
            await clock.sleep(READ_AGAIN_SECONDS)


def known_records(
    partition: Partition, types: dict[int, RecordType], batch: RecordBatch
) -> Iterator[tuple[Message, Message | None]]:
    """Yields the keys and values of a batch; skips records of unknown types and versions."""
    for record in batch.records():
        if record.key is None:
            continue
        try:
            yield decode_record(types, record.key, record.value)
        except UnknownRecord as unknown:
            logger.warning(
                "%s: record at offset %d skipped (%s)",
                partition,
                record.offset,
                unknown,
            )
