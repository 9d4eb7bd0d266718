"""Logs with keys and transactions, and compaction rounds over them."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pykbroker_protocol.records.batch import RecordBatch, iterate_batches
from pykbroker_protocol.records.builder import BatchBuilder
from pykbroker_protocol.records.compression import Compression
from pykbroker_protocol.records.control import EndTransactionMarker, marker_batch
from pykbroker_storage.compaction import (
    Compaction,
    CompactionLimits,
    OffsetMapBuilt,
    SegmentRewriter,
    find_cleanable,
)
from pykbroker_storage.compaction.throttler import UNLIMITED, Throttler
from pykbroker_storage.configuration import CleanupPolicy, LogConfiguration
from pykbroker_storage.filesystem import FileSystem
from pykbroker_storage.log import Log
from tests.storage.batches import NOW, batches_from

DELETE_RETENTION_MS = 1000
COMPACTED = LogConfiguration(
    segment_bytes=400,
    index_interval_bytes=100,
    cleanup_policy=frozenset({CleanupPolicy.COMPACT}),
    delete_retention_ms=DELETE_RETENTION_MS,
    file_delete_delay_ms=0,
)
LARGE = replace(COMPACTED, segment_bytes=100_000)
PLENTY = 1 << 20

KeyValue = tuple[bytes, bytes | None]


def append_keyed(
    log: Log,
    pairs: Sequence[KeyValue],
    *,
    timestamp: int = NOW,
    producer_id: int = -1,
    base_sequence: int = -1,
    is_transactional: bool = False,
    compression: Compression = Compression.NONE,
    leader_epoch: int = 0,
) -> int:
    """Appends one batch and returns the offset of its first record."""
    builder = BatchBuilder(
        compression=compression,
        producer_id=producer_id,
        producer_epoch=0 if producer_id >= 0 else -1,
        base_sequence=base_sequence,
        is_transactional=is_transactional,
    )
    for number, (key, value) in enumerate(pairs):
        builder.append(timestamp + number, key, value)
    return _append(log, builder.build(), leader_epoch)


def end_transaction(log: Log, producer_id: int, *, is_commit: bool, timestamp: int = NOW) -> int:
    marker = EndTransactionMarker(is_commit=is_commit, coordinator_epoch=0)
    return _append(
        log,
        marker_batch(marker, producer_id=producer_id, producer_epoch=0, timestamp_ms=timestamp),
        0,
    )


def _append(log: Log, batch: bytes, leader_epoch: int) -> int:
    records = bytearray(batch)
    batches = list(iterate_batches(records))
    return log.append(records, batches, leader_epoch=leader_epoch, now_ms=NOW).first_offset


def compact(
    log: Log,
    *,
    first_dirty_offset: int = 0,
    now_ms: int = NOW,
    map_bytes_max: int = PLENTY,
    last_stable_offset: int | None = None,
) -> OffsetMapBuilt:
    """Runs one whole round; all appended records count as replicated."""
    log.producers.advance_high_watermark(log.log_end_offset)
    if last_stable_offset is None:
        unstable = log.producers.first_unstable_offset
        last_stable_offset = log.log_end_offset if unstable is None else unstable
    cleanable = find_cleanable(
        log.segments()[:-1],
        log.configuration,
        first_dirty_offset=first_dirty_offset,
        log_start_offset=log.log_start_offset,
        log_end_offset=log.log_end_offset,
        last_stable_offset=last_stable_offset,
        now_ms=now_ms,
    )
    bounds = CompactionLimits(map_bytes_max=map_bytes_max, bytes_per_second=UNLIMITED)
    round_ = Compaction.begin(log, cleanable, now_ms=now_ms, bounds=bounds)
    rewriting = SegmentRewriter(round_.job, log.filesystem, Throttler())
    built = rewriting.build_offset_map()
    while (rewritten := rewriting.write_next()) is not None:
        round_.swap_in(rewritten)
    return built


def keyed_records(log: Log, offset: int = 0) -> list[tuple[int, bytes, bytes | None]]:
    """Returns offset, key and value of every data record, as for a consumer."""
    found = []
    for batch in batches_from(log, max(offset, log.log_start_offset)):
        assert batch.is_crc_valid()
        if not batch.is_control:
            for record in batch.records():
                assert record.key is not None
                found.append((record.offset, record.key, record.value))
    return [it for it in found if it[0] >= offset]


def markers(log: Log) -> list[RecordBatch]:
    return [batch for batch in batches_from(log, 0) if batch.is_control]


def last_values(records: Sequence[tuple[int, bytes, bytes | None]]) -> Mapping[bytes, bytes]:
    """Returns the last value of each key."""
    table: dict[bytes, bytes] = {}
    for _, key, value in records:
        if value is None:
            table.pop(key, None)
        else:
            table[key] = value
    return table


class Killed(BaseException):
    """Simulates the death of the process: not an Exception, so that no handler runs."""


class DeadlyDisk(FileSystem):
    """Kills the process before the given number of calls that change files."""

    def __init__(self, calls_left: int) -> None:
        self.calls_left = calls_left
        self._open_now: set[int] = set()

        def pwrite(descriptor: int, data: Any, position: int) -> int:
            self._live()
            return os.pwrite(descriptor, data, position)

        def ftruncate(descriptor: int, size: int) -> None:
            self._live()
            os.ftruncate(descriptor, size)

        def fdatasync(descriptor: int) -> None:
            """Writes survive the process; only a power loss needs a flush."""

        def close(descriptor: int) -> None:
            self._open_now.discard(descriptor)
            os.close(descriptor)

        self.pwrite = pwrite
        self.ftruncate = ftruncate
        self.fdatasync = fdatasync
        self.close = close

    def bury(self) -> None:
        """Closes what the kernel closes for a dead process."""
        while self._open_now:
            self.close(next(iter(self._open_now)))

    def sync_directory(self, path: str) -> None:
        pass

    def _live(self) -> None:
        if self.calls_left <= 0:
            raise Killed
        self.calls_left -= 1

    def open(self, path: str) -> int:
        self._live()
        return self._opened(super().open(path))

    def open_existing(self, path: str) -> int:
        return self._opened(super().open_existing(path))

    def _opened(self, descriptor: int) -> int:
        self._open_now.add(descriptor)
        return descriptor

    def rename(self, source: str, target: str) -> None:
        self._live()
        super().rename(source, target)

    def unlink(self, path: str) -> None:
        self._live()
        super().unlink(path)
