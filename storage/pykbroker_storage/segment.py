"""A segment: a contiguous part of the log in one file, with its indexes."""

import logging
from collections.abc import Sequence
from contextlib import suppress
from struct import Struct
from typing import NamedTuple

from pykbroker_protocol.records.batch import RecordBatch
from pykbroker_storage.batch_scan import CorruptLog, first_batch
from pykbroker_storage.filesystem import NotCached, directory_of, sync_file
from pykbroker_storage.index import MalformedIndex
from pykbroker_storage.lazy_verification import LazyVerification
from pykbroker_storage.mapped_file import MappedFile, OpenFiles
from pykbroker_storage.segment_indexes import (
    OFFSET_INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    SegmentIndexes,
    read_last_timestamp,
)
from pykbroker_storage.transaction_index import (
    TRANSACTION_INDEX_SUFFIX,
    AbortedTransaction,
    TransactionIndex,
)
from pykbroker_storage.transaction_index_checksums import TransactionIndexChecksums

logger = logging.getLogger(__name__)

NO_TIMESTAMP = -1
LOG_SUFFIX = ".log"
INDEX_SUFFIXES = (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)
SEGMENT_SUFFIXES = (LOG_SUFFIX, *INDEX_SUFFIXES, ".snapshot")
# Recent batch boundaries of readers and the writer; readers continue at exactly these offsets.
BOUNDARIES_MAX = 32

_TIMES = Struct(">35xq")


class LogSlice(NamedTuple):
    """Whole batches as they are stored; the next read starts at `next_offset`."""

    view: memoryview
    next_offset: int


class CompactedBytes(NamedTuple):
    """Size and largest timestamp of a compacted segment, whose files end in `.cleaned`."""

    size_bytes: int
    max_timestamp_ms: int
    max_timestamp_offset: int


class Segment:
    """One segment; every offset in it is >= `base_offset` and < `next_offset`."""

    __slots__ = (
        "_first_timestamp_ms",
        "_open_files",
        "base_offset",
        "boundaries",
        "checksums",
        "created_ms",
        "file",
        "indexes_loaded",
        "is_sealed",
        "lazy_verification",
        "max_timestamp_ms",
        "max_timestamp_offset",
        "next_offset",
        "transaction_index_loaded",
    )

    def __init__(
        self,
        directory: str,
        base_offset: int,
        *,
        size_bytes: int,
        created_ms: int,
        open_files: OpenFiles,
        checksums: TransactionIndexChecksums,
    ) -> None:
        self.base_offset = base_offset
        self.next_offset = base_offset
        self.created_ms = created_ms
        self.file = MappedFile(f"{directory}/{base_offset:020d}.log", size_bytes, open_files)
        self.max_timestamp_ms = NO_TIMESTAMP
        self.max_timestamp_offset = base_offset
        self._open_files = open_files
        self._first_timestamp_ms = NO_TIMESTAMP
        self.boundaries: dict[int, int] = {base_offset: 0}
        self.is_sealed = False
        # None until needed: most sealed segments are never read again.
        self.indexes_loaded: SegmentIndexes | None = None
        self.transaction_index_loaded: TransactionIndex | None = None
        self.checksums = checksums
        self.lazy_verification: LazyVerification | None = None

    @property
    def size_bytes(self) -> int:
        return self.file.size_bytes

    def append(
        self,
        records: bytearray | memoryview | bytes,
        batches: Sequence[RecordBatch],
        index_interval_bytes: int,
    ) -> None:
        """Writes whole batches with assigned offsets at the end; a failed write changes nothing."""
        position = self.file.append(records)
        if position == 0:
            self.reset_indexes()
            self._first_timestamp_ms = batches[0].max_timestamp
        for batch in batches:
            self.index_batch(batch, position, index_interval_bytes)
            position += batch.size_bytes
        self.next_offset = next_offset = batches[-1].next_offset
        self._add_boundary(next_offset, position)

    def index_batch(self, batch: RecordBatch, position: int, index_interval_bytes: int) -> None:
        """Adds the next batch, stored at `position`, to the indexes and the largest timestamp."""
        if batch.max_timestamp > self.max_timestamp_ms:
            self.max_timestamp_ms = batch.max_timestamp
            self.max_timestamp_offset = batch.last_offset
        indexes = self.indexes_loaded or self.indexes
        if indexes.unindexed_bytes > index_interval_bytes:
            indexes.add(
                batch.last_offset - self.base_offset,
                position,
                self.max_timestamp_ms,
                self.max_timestamp_offset - self.base_offset,
            )
        indexes.unindexed_bytes += batch.size_bytes

    def add_aborted(self, transaction: AbortedTransaction) -> None:
        """Adds a transaction that the last batch aborts; `finish` retries if the disk fails."""
        self.transaction_index.append(transaction)
        with suppress(OSError):
            self.transaction_index.save(
                self._open_files.filesystem, self.path(TRANSACTION_INDEX_SUFFIX)
            )

    def read(
        self, offset: int, *, bytes_max: int, end_offset: int, first_batch_whole: bool
    ) -> LogSlice | None:
        """Returns whole batches from the one with `offset` to the last one below `end_offset`."""
        start = self.position_of(offset)
        end, next_offset = self._boundary_at_or_before(end_offset)
        if end - start > bytes_max:
            end, next_offset = self._cut(
                start, start + bytes_max, first_batch_whole=first_batch_whole
            )
        if self.lazy_verification is not None and start < end:
            end, next_offset = self._limit_to_valid(start, end, next_offset)
        if start >= end:
            return None
        if next_offset not in self.boundaries:
            self._add_boundary(next_offset, end)
        return LogSlice(self.file.view(start, end), next_offset)

    def bytes_between(self, start_offset: int, end_offset: int) -> tuple[int, int]:
        """Returns the size of what `read` would return without a limit, and the offset after it."""
        end, next_offset = self._boundary_at_or_before(end_offset)
        return max(0, end - self.position_of(start_offset)), next_offset

    def copy_for_reading(self, open_files: OpenFiles) -> "Segment":
        """Returns a copy with its own file, for reads on another thread.

        The copy shares the indexes: the owner only appends to them, beyond the end of the copy.
        """
        copy = Segment(
            directory_of(self.file.path),
            self.base_offset,
            size_bytes=self.size_bytes,
            created_ms=self.created_ms,
            open_files=open_files,
            checksums=self.checksums,
        )
        copy.next_offset = self.next_offset
        copy.max_timestamp_ms = self.max_timestamp_ms
        copy.max_timestamp_offset = self.max_timestamp_offset
        copy.boundaries = self.boundaries.copy()
        copy.indexes_loaded = self.indexes_loaded
        # Each attribute is read once: sealed segments are copied on another thread while the owner
        # may drop both.
        aborted, lazy_verification = self.transaction_index_loaded, self.lazy_verification
        copy.transaction_index_loaded = None if aborted is None else aborted.copy()
        copy.lazy_verification = None if lazy_verification is None else lazy_verification.copy()
        return copy

    def merge(self, copy: "Segment") -> None:
        """Takes over indexes, boundaries and verification state that reading a copy produced."""
        if copy.next_offset == self.next_offset:  # else the copy lacks newer batches
            self._merge_indexes(copy)
        if self.max_timestamp_ms == NO_TIMESTAMP:
            self.max_timestamp_ms = copy.max_timestamp_ms
            self.max_timestamp_offset = copy.max_timestamp_offset
        if self.lazy_verification is not None:
            self.lazy_verification = copy.lazy_verification
        for offset, position in copy.boundaries.items():
            if offset not in self.boundaries:
                self._add_boundary(offset, position)
        with suppress(OSError):  # the next read reports the error
            self.file.ensure_open()

    def _merge_indexes(self, copy: "Segment") -> None:
        if self.is_sealed and self.indexes_loaded is None and copy.indexes_loaded is not None:
            self.indexes_loaded = copy.indexes_loaded
            self._open_files.recent_indexes.admit(self)
        if self.transaction_index_loaded is None:
            self.transaction_index_loaded = copy.transaction_index_loaded
            if self.transaction_index_loaded and self.is_sealed:
                self._open_files.recent_indexes.admit(self)

    def verify_lazily(self) -> None:
        """Verifies the segment's bytes, which an earlier process wrote, on first read."""
        self.lazy_verification = LazyVerification(self.size_bytes)

    def mark_verified(self) -> None:
        """Marks all bytes of the segment as verified."""
        self.lazy_verification = None

    def _limit_to_valid(self, start: int, end: int, next_offset: int) -> tuple[int, int]:
        """Returns the end of the valid batches and the next offset; raises `CorruptLog`."""
        assert self.lazy_verification is not None
        if not self.lazy_verification.needs_check(start, end):
            return end, next_offset
        if not self._open_files.may_block:
            raise NotCached  # verification takes long
        corrupt = self.lazy_verification.first_corrupt(self.file, start, end)
        if self.lazy_verification.is_complete:
            self.lazy_verification = None
        if corrupt is None:
            return end, next_offset
        if corrupt == start:
            raise CorruptLog(f"{self.file.path}: the batch at position {corrupt} is corrupt")
        last_valid = first_batch(self.file, start, ending_after=corrupt - 1)
        assert last_valid is not None, "a valid batch precedes the corrupt one"
        return corrupt, last_valid.last_offset + 1

    def position_of(self, offset: int) -> int:
        """Returns the position of the batch with this offset, of the next one, or the end."""
        position = self.boundaries.get(offset)
        if position is not None:
            return position
        if offset >= self.next_offset:
            return self.size_bytes
        near = self.indexes.offsets.position_at_or_before(offset - self.base_offset)
        found = first_batch(self.file, near, reaching=offset)
        return found.position if found else self.size_bytes

    def _boundary_at_or_before(self, offset: int) -> tuple[int, int]:
        """Returns the end of the last batch below `offset` and the offset that follows it."""
        position = self.boundaries.get(offset)
        if position is not None:
            return position, offset
        if offset >= self.next_offset:
            return self.size_bytes, self.next_offset
        near = self.indexes.offsets.position_at_or_before(offset - self.base_offset)
        found = first_batch(self.file, near, reaching=offset)
        if found is None:
            return self.size_bytes, self.next_offset
        return found.position, min(found.base_offset, offset)

    def batch_at(self, position: int) -> RecordBatch:
        """Returns the batch at a position as a view of the file."""
        bounds = first_batch(self.file, position, reaching=0)
        assert bounds is not None, "position is at the end of the segment"
        return RecordBatch.parse(self.file.view(position, bounds.end))

    def position_of_timestamp(self, timestamp_ms: int, offset: int) -> int:
        """Returns the position of the first batch from `offset` that reaches a timestamp."""
        if timestamp_ms > self.largest_timestamp_ms:
            return self.size_bytes
        before = self.base_offset + self.indexes.times.offset_before(timestamp_ms)
        position = self.position_of(max(before, offset))
        while position < self.size_bytes:
            batch = self.batch_at(position)
            if batch.max_timestamp >= timestamp_ms:
                break
            position += batch.size_bytes
        return position

    def truncate_to_offset(self, offset: int) -> None:
        """Removes every batch that reaches `offset`; the segment becomes active again."""
        self.unseal()
        position = self.position_of(offset)
        if position < self.size_bytes:
            first_removed = self.batch_at(position).base_offset - self.base_offset
            self.indexes.truncate(position, first_removed)
            self.file.truncate(position)
            if self.lazy_verification is not None:
                self.lazy_verification.truncate(position)
            self.boundaries = {self.base_offset: 0}
        self.find_end()

    def flush_records(self) -> None:
        """Flushes the records and the transaction index, which recovery cannot rebuild."""
        self.file.flush()
        filesystem, aborted_index = self._open_files.filesystem, self.path(TRANSACTION_INDEX_SUFFIX)
        with suppress(FileNotFoundError):
            filesystem.size_and_age(aborted_index)  # needs no descriptor; mostly there is none
            sync_file(filesystem, aborted_index)

    def flush_indexes(self) -> None:
        sync_file(self._open_files.filesystem, self.path(".index"))
        sync_file(self._open_files.filesystem, self.path(".timeindex"))

    def finish(self) -> None:
        """Completes the files: removes the rest of a failed append and writes the indexes."""
        self.file.cut_leftover()
        self.write_indexes()
        self.save_transaction_index()

    def seal(self) -> None:
        """Marks the segment as complete: no batch is appended to it."""
        self.is_sealed = True
        self._open_files.recent_indexes.admit(self)

    def unseal(self) -> None:
        """Makes the segment active again after all later segments were removed."""
        self._open_files.recent_indexes.remove(self)
        self.is_sealed = False

    def find_end(self, index_interval_bytes: int = 4096) -> None:
        """Finds the end offset and largest timestamp of the active segment.

        Reads the batch headers after the last index entry, or all headers without an entry.
        """
        self.next_offset = self.base_offset
        self.max_timestamp_ms = self.indexes.times.last_timestamp
        self.max_timestamp_offset = self.base_offset + self.indexes.times.last_relative_offset
        self.indexes.unindexed_bytes = 0
        position = self.indexes.offsets.last_position
        while position < self.size_bytes:
            batch = self.batch_at(position)
            self.index_batch(batch, position, index_interval_bytes)
            self.next_offset = batch.next_offset
            position += batch.size_bytes

    @property
    def largest_timestamp_ms(self) -> int:
        """Largest timestamp of the records, or the modification time of the file without any."""
        if self.max_timestamp_ms == NO_TIMESTAMP and self.size_bytes:
            self._load_max_timestamp()
        if self.max_timestamp_ms != NO_TIMESTAMP:
            return self.max_timestamp_ms
        return self.created_ms

    def _load_max_timestamp(self) -> None:
        try:
            found = read_last_timestamp(self._open_files.filesystem, self._stem)
        except (FileNotFoundError, MalformedIndex):
            found = self.indexes.times.last_timestamp, self.indexes.times.last_relative_offset
        self.max_timestamp_ms = found[0]
        self.max_timestamp_offset = self.base_offset + found[1]

    @property
    def first_timestamp_ms(self) -> int:
        """Timestamp of the first batch, from which `segment.ms` is measured."""
        if self._first_timestamp_ms == NO_TIMESTAMP and self.size_bytes:
            (self._first_timestamp_ms,) = _TIMES.unpack(self.file.view(0, _TIMES.size))
        return self._first_timestamp_ms

    @property
    def indexes(self) -> SegmentIndexes:
        if self.indexes_loaded is None:
            self.indexes_loaded = self._load_indexes()
        return self.indexes_loaded

    def drop_indexes(self) -> None:
        """Frees the memory of the indexes; they are loaded again on access."""
        if self.is_sealed:
            self.indexes_loaded = None
            if self.transaction_index_loaded and self.transaction_index_loaded.is_saved:
                self.transaction_index_loaded = None

    @property
    def transaction_index(self) -> TransactionIndex:
        """The aborted transactions whose marker is here; raises `MalformedTransactionIndex`."""
        if self.transaction_index_loaded is None:
            if not self._open_files.may_block:
                raise NotCached
            path = self.path(TRANSACTION_INDEX_SUFFIX)
            found = TransactionIndex.read(self._open_files.filesystem, path)
            self.checksums.check(self.base_offset, found.to_bytes())
            self.transaction_index_loaded = found
            if self.transaction_index_loaded and self.is_sealed:
                self._open_files.recent_indexes.admit(self)
        return self.transaction_index_loaded

    def clear_transaction_index(self) -> None:
        """Deletes the transaction index before the batches are read again."""
        with suppress(FileNotFoundError):
            self._open_files.filesystem.unlink(self.path(TRANSACTION_INDEX_SUFFIX))
        self.transaction_index_loaded = TransactionIndex()
        self.checksums.remove(self.base_offset)

    def truncate_transaction_index(self) -> None:
        """Removes transactions that end after the last batch; raises MalformedTransactionIndex."""
        entries = self.transaction_index
        kept = [it for it in entries if it.last_offset < self.next_offset]
        if len(kept) < len(entries):
            self.clear_transaction_index()
            for transaction in kept:
                self.transaction_index.append(transaction)
            self.save_transaction_index()

    def reset_indexes(self) -> None:
        """Starts with empty indexes: for a new segment, or before a scan that fills them."""
        self.indexes_loaded = SegmentIndexes()
        self.next_offset = self.base_offset
        self.max_timestamp_ms = NO_TIMESTAMP
        self.max_timestamp_offset = self.base_offset

    def write_indexes(self) -> None:
        """Writes both index files; the last time entry covers the whole segment."""
        self._add_max_timestamp()
        self.indexes.write(self._open_files.filesystem, self._stem)

    def save_transaction_index(self) -> None:
        """Writes and flushes entries whose first write failed; earlier flushes missed them."""
        if self.transaction_index_loaded is None:
            return
        if not self.transaction_index_loaded.is_saved:
            path = self.path(TRANSACTION_INDEX_SUFFIX)
            self.transaction_index_loaded.save(self._open_files.filesystem, path)
            sync_file(self._open_files.filesystem, path)
        self.checksums.record(self.base_offset, self.transaction_index_loaded.to_bytes())

    def close(self) -> None:
        self._open_files.recent_indexes.remove(self)
        self.file.close()

    def remove(self) -> None:
        """Deletes the segment's files immediately."""
        self.close()
        for suffix in SEGMENT_SUFFIXES:
            with suppress(FileNotFoundError):
                self._open_files.filesystem.unlink(self.path(suffix))

    def path(self, suffix: str) -> str:
        return self._stem + suffix

    @property
    def _stem(self) -> str:
        return self.file.path.removesuffix(LOG_SUFFIX)

    def _add_max_timestamp(self) -> None:
        relative_offset = self.max_timestamp_offset - self.base_offset
        self.indexes.times.append(self.max_timestamp_ms, relative_offset)

    def _load_indexes(self) -> SegmentIndexes:
        if self.size_bytes == 0:
            return SegmentIndexes()
        if not self._open_files.may_block:
            raise NotCached
        try:
            filesystem = self._open_files.filesystem
            indexes = SegmentIndexes.read(filesystem, self._stem, log_bytes=self.size_bytes)
        except (FileNotFoundError, MalformedIndex) as problem:
            logger.warning(
                "%s: index is missing or corrupt (%s); rebuilding it from the log",
                self.file.path,
                problem,
            )
            indexes = self._rebuild_indexes()
        if self.is_sealed:
            self._open_files.recent_indexes.admit(self)
        return indexes

    def _rebuild_indexes(self) -> SegmentIndexes:
        next_offset = self.next_offset
        self.reset_indexes()
        self.find_end()
        self._add_max_timestamp()
        self.next_offset = max(next_offset, self.next_offset)
        return self.indexes

    def _add_boundary(self, offset: int, position: int) -> None:
        boundaries = self.boundaries
        if len(boundaries) >= BOUNDARIES_MAX:
            del boundaries[next(iter(boundaries))]
        boundaries[offset] = position

    def _cut(self, start: int, limit: int, *, first_batch_whole: bool) -> tuple[int, int]:
        """Returns the last batch boundary up to `limit` and the offset that starts there."""
        near = max(start, self.indexes.offsets.last_position_up_to(limit))
        first_outside = first_batch(self.file, near, ending_after=limit)
        assert first_outside is not None, "the segment ends before the limit"
        if first_outside.position == start and first_batch_whole:
            return first_outside.end, first_outside.last_offset + 1
        return first_outside.position, first_outside.base_offset
