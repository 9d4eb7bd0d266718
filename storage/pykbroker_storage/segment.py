"""A stretch of the log in one file, with the indexes that find an offset or a time in it."""

import logging
from collections.abc import Sequence
from contextlib import suppress
from struct import Struct
from typing import NamedTuple

from pykbroker_protocol.records.batch import HEADER_BYTES, PREFIX_BYTES, RecordBatch
from pykbroker_storage.filesystem import read_file, sync_file, write_file
from pykbroker_storage.index import (
    OFFSET_ENTRY_BYTES,
    TIME_ENTRY_BYTES,
    MalformedIndex,
    OffsetIndex,
    TimeIndex,
)
from pykbroker_storage.mapped_file import MappedFile, OpenFiles

logger = logging.getLogger(__name__)

NO_TIMESTAMP = -1
LOG_SUFFIX = ".log"
INDEX_SUFFIXES = (".index", ".timeindex", ".txnindex")
SEGMENT_SUFFIXES = (LOG_SUFFIX, *INDEX_SUFFIXES, ".snapshot")
# How far a scan over batch headers looks at a time: twice the usual distance of index entries.
SCAN_BYTES = 8192
# Where readers and the writer lately stood; readers come back to exactly these offsets.
BOUNDARIES_MAX = 32
NEVER = 2**63

# base offset, length, (leader epoch, magic, crc, attributes,) last offset delta
_BOUNDS = Struct(">qi11xi")
_TIMES = Struct(">35xq")


class CorruptLog(Exception):
    """The stored bytes are no sequence of record batches; the message says where."""


class LogSlice(NamedTuple):
    """Whole batches as they are stored; `next_offset` is where to read on."""

    view: memoryview
    next_offset: int


class _Bounds(NamedTuple):
    position: int
    end: int
    base_offset: int
    last_offset: int


class Segment:
    """The bounds: every offset in it is >= `base_offset` and < `next_offset`."""

    __slots__ = (
        "_boundaries",
        "_first_timestamp_ms",
        "_offset_index",
        "_open_files",
        "_time_index",
        "_unindexed_bytes",
        "base_offset",
        "created_ms",
        "file",
        "max_timestamp_ms",
        "max_timestamp_offset",
        "next_offset",
    )

    def __init__(
        self,
        directory: str,
        base_offset: int,
        *,
        size_bytes: int,
        created_ms: int,
        open_files: OpenFiles,
    ) -> None:
        self.base_offset = base_offset
        self.next_offset = base_offset
        self.created_ms = created_ms
        self.file = MappedFile(f"{directory}/{base_offset:020d}.log", size_bytes, open_files)
        self.max_timestamp_ms = NO_TIMESTAMP
        self.max_timestamp_offset = base_offset
        self._open_files = open_files
        self._first_timestamp_ms = NO_TIMESTAMP
        self._unindexed_bytes = 0
        self._boundaries: dict[int, int] = {base_offset: 0}
        # None until needed: most sealed segments are never read again.
        self._offset_index: OffsetIndex | None = None
        self._time_index: TimeIndex | None = None

    @property
    def size_bytes(self) -> int:
        return self.file.size_bytes

    def append(
        self,
        records: bytearray | memoryview | bytes,
        batches: Sequence[RecordBatch],
        index_interval_bytes: int,
    ) -> None:
        """Writes whole batches with their offsets at the end; a failure changes nothing."""
        position = self.file.append(records)
        if position == 0:
            self.begin_indexes()
            self._first_timestamp_ms = batches[0].max_timestamp
        for batch in batches:
            self.account(batch, position, index_interval_bytes)
            position += batch.size_bytes
        self.next_offset = batches[-1].next_offset
        self._remember(self.next_offset, position)

    def account(self, batch: RecordBatch, position: int, index_interval_bytes: int) -> None:
        """Takes the batch at `position`, the next one, into indexes and largest timestamp."""
        if batch.max_timestamp > self.max_timestamp_ms:
            self.max_timestamp_ms = batch.max_timestamp
            self.max_timestamp_offset = batch.last_offset
        if self._unindexed_bytes > index_interval_bytes:
            self.offset_index.append(batch.last_offset - self.base_offset, position)
            self._note_max_timestamp()
            self._unindexed_bytes = 0
        self._unindexed_bytes += batch.size_bytes

    def read(
        self, offset: int, *, bytes_max: int, end_offset: int, first_batch_whole: bool
    ) -> LogSlice | None:
        """Whole batches from the one that holds `offset` to the last wholly below `end_offset`."""
        start = self.position_of(offset)
        end, next_offset = self._boundary_at_or_before(end_offset)
        if end - start > bytes_max:
            end, next_offset = self._cut(
                start, start + bytes_max, first_batch_whole=first_batch_whole
            )
        if start >= end:
            return None
        if next_offset not in self._boundaries:
            self._remember(next_offset, end)
        return LogSlice(self.file.view(start, end), next_offset)

    def position_of(self, offset: int) -> int:
        """Where the batch with this offset, or the next one kept, starts; else the end."""
        position = self._boundaries.get(offset)
        if position is not None:
            return position
        if offset >= self.next_offset:
            return self.size_bytes
        near = self.offset_index.position_at_or_before(offset - self.base_offset)
        found = self._first_batch(near, reaching=offset)
        return found.position if found else self.size_bytes

    def _boundary_at_or_before(self, offset: int) -> tuple[int, int]:
        """Where the last batch wholly below `offset` ends, and which offset comes then."""
        position = self._boundaries.get(offset)
        if position is not None:
            return position, offset
        if offset >= self.next_offset:
            return self.size_bytes, self.next_offset
        near = self.offset_index.position_at_or_before(offset - self.base_offset)
        found = self._first_batch(near, reaching=offset)
        if found is None:
            return self.size_bytes, self.next_offset
        return found.position, min(found.base_offset, offset)

    def batch_at(self, position: int) -> RecordBatch:
        """The batch that starts at this position; its view is of the file."""
        bounds = self._first_batch(position, reaching=0)
        assert bounds is not None, "the position is not the end"
        return RecordBatch.parse(self.file.view(position, bounds.end))

    def position_of_timestamp(self, timestamp_ms: int, offset: int) -> int:
        """The first batch at or after `offset` with a record at or after the time, or the end."""
        if timestamp_ms > self.largest_timestamp_ms:
            return self.size_bytes
        before = self.base_offset + self.time_index.offset_before(timestamp_ms)
        position = self.position_of(max(before, offset))
        while position < self.size_bytes:
            batch = self.batch_at(position)
            if batch.max_timestamp >= timestamp_ms:
                break
            position += batch.size_bytes
        return position

    def truncate_to_offset(self, offset: int) -> None:
        """Removes every batch that reaches to `offset`; the segment is the active one again."""
        position = self.position_of(offset)
        if position < self.size_bytes:
            relative_offset = self.batch_at(position).base_offset - self.base_offset
            self.offset_index.truncate_to_position(position)
            self.time_index.truncate_to_offset(relative_offset)
            self.file.truncate(position)
            self._boundaries = {self.base_offset: 0}
        self.find_end()

    def flush_records(self) -> None:
        sync_file(self._open_files.filesystem, self.file.path)

    def flush_indexes(self) -> None:
        sync_file(self._open_files.filesystem, self.path(".index"))
        sync_file(self._open_files.filesystem, self.path(".timeindex"))

    def seal(self) -> None:
        """Nothing will be appended: cuts what a failed append may have left, keeps the indexes."""
        self.file.cut_leftover()
        self.write_indexes()

    def find_end(self, index_interval_bytes: int = 4096) -> None:
        """Learns the end offset and largest timestamp of the segment written last.

        It reads the batch headers after the last index entry; without entries that is all.
        """
        self.next_offset = self.base_offset
        self.max_timestamp_ms = self.time_index.last_timestamp
        self.max_timestamp_offset = self.base_offset + self.time_index.last_relative_offset
        self._unindexed_bytes = 0
        position = self.offset_index.last_position
        while position < self.size_bytes:
            batch = self.batch_at(position)
            self.account(batch, position, index_interval_bytes)
            self.next_offset = batch.next_offset
            position += batch.size_bytes

    @property
    def largest_timestamp_ms(self) -> int:
        """Of its records; the file's own time if they carry none."""
        if self.max_timestamp_ms == NO_TIMESTAMP and self.size_bytes:
            self.max_timestamp_ms = self.time_index.last_timestamp
            self.max_timestamp_offset = self.base_offset + self.time_index.last_relative_offset
        if self.max_timestamp_ms != NO_TIMESTAMP:
            return self.max_timestamp_ms
        return self.created_ms

    @property
    def first_timestamp_ms(self) -> int:
        """Of the first batch: rolling by time counts from here."""
        if self._first_timestamp_ms == NO_TIMESTAMP and self.size_bytes:
            (self._first_timestamp_ms,) = _TIMES.unpack(self.file.view(0, _TIMES.size))
        return self._first_timestamp_ms

    def is_index_full(self, segment_index_bytes: int) -> bool:
        """One time entry is kept free: closing the segment writes it."""
        return (
            len(self.offset_index) >= segment_index_bytes // OFFSET_ENTRY_BYTES
            or len(self.time_index) >= segment_index_bytes // TIME_ENTRY_BYTES - 1
        )

    @property
    def offset_index(self) -> OffsetIndex:
        if self._offset_index is None:
            self._load_indexes()
        assert self._offset_index is not None
        return self._offset_index

    @property
    def time_index(self) -> TimeIndex:
        if self._time_index is None:
            self._load_indexes()
        assert self._time_index is not None
        return self._time_index

    def begin_indexes(self) -> None:
        """Starts both indexes empty: for a new segment, or before a scan that fills them."""
        self._offset_index = OffsetIndex()
        self._time_index = TimeIndex()
        self._unindexed_bytes = 0
        self.max_timestamp_ms = NO_TIMESTAMP
        self.max_timestamp_offset = self.base_offset

    def write_indexes(self) -> None:
        """Puts the indexes on disk; the last time entry speaks for the whole segment."""
        self._note_max_timestamp()
        filesystem = self._open_files.filesystem
        write_file(filesystem, self.path(".index"), self.offset_index.to_bytes())
        write_file(filesystem, self.path(".timeindex"), self.time_index.to_bytes())

    def remove(self) -> None:
        """Unlinks its files at once."""
        self.file.close()
        for suffix in SEGMENT_SUFFIXES:
            with suppress(FileNotFoundError):
                self._open_files.filesystem.unlink(self.path(suffix))

    def path(self, suffix: str) -> str:
        return self.file.path.removesuffix(".log") + suffix

    def _note_max_timestamp(self) -> None:
        relative_offset = self.max_timestamp_offset - self.base_offset
        self.time_index.append(self.max_timestamp_ms, relative_offset)

    def _load_indexes(self) -> None:
        if self.size_bytes == 0:
            self._offset_index = OffsetIndex()
            self._time_index = TimeIndex()
            return
        filesystem = self._open_files.filesystem
        try:
            offsets = read_file(filesystem, self.path(".index"))
            self._offset_index = OffsetIndex.from_bytes(offsets, log_bytes=self.size_bytes)
            self._time_index = TimeIndex.from_bytes(read_file(filesystem, self.path(".timeindex")))
        except (FileNotFoundError, MalformedIndex) as problem:
            logger.warning("%s: indexes are rebuilt from the log: %s", self.file.path, problem)
            next_offset = self.next_offset
            self.begin_indexes()
            self.find_end()
            self._note_max_timestamp()
            self.next_offset = max(next_offset, self.next_offset)

    def _remember(self, offset: int, position: int) -> None:
        boundaries = self._boundaries
        if len(boundaries) >= BOUNDARIES_MAX:
            del boundaries[next(iter(boundaries))]
        boundaries[offset] = position

    def _first_batch(
        self, position: int, *, reaching: int = NEVER, ending_after: int = NEVER
    ) -> _Bounds | None:
        """From a batch boundary forward: the first batch with that offset or that end."""
        size_bytes = self.size_bytes
        unpack = _BOUNDS.unpack_from
        while position < size_bytes:
            window = self.file.view(position, min(position + SCAN_BYTES, size_bytes))
            at = 0
            last_start = len(window) - HEADER_BYTES
            while at <= last_start:
                base_offset, length, last_offset_delta = unpack(window, at)
                end = position + at + length + PREFIX_BYTES
                if length < HEADER_BYTES - PREFIX_BYTES or end > size_bytes:
                    raise CorruptLog(f"{self.file.path}: no batch at {position + at}")
                last_offset = base_offset + last_offset_delta
                if last_offset >= reaching or end > ending_after:
                    return _Bounds(position + at, end, base_offset, last_offset)
                at = end - position
            if at == 0:
                raise CorruptLog(f"{self.file.path}: the log ends within a batch at {position}")
            position += at
        return None

    def _cut(self, start: int, limit: int, *, first_batch_whole: bool) -> tuple[int, int]:
        """The last boundary up to `limit`, and the offset that starts there."""
        near = max(start, self.offset_index.last_position_up_to(limit))
        first_outside = self._first_batch(near, ending_after=limit)
        assert first_outside is not None, "the caller has seen that more lies beyond the limit"
        if first_outside.position == start and first_batch_whole:
            return first_outside.end, first_outside.last_offset + 1
        return first_outside.position, first_outside.base_offset


def create_segment(directory: str, base_offset: int, open_files: OpenFiles, now_ms: int) -> Segment:
    segment = Segment(
        directory, base_offset, size_bytes=0, created_ms=now_ms, open_files=open_files
    )
    write_file(open_files.filesystem, segment.file.path, b"")
    return segment


def open_segment(directory: str, base_offset: int, open_files: OpenFiles) -> Segment:
    """A segment that is there; where it ends is not known yet."""
    path = f"{directory}/{base_offset:020d}.log"
    size_bytes, modified_ms = open_files.filesystem.size_and_age(path)
    return Segment(
        directory,
        base_offset,
        size_bytes=size_bytes,
        created_ms=modified_ms,
        open_files=open_files,
    )
