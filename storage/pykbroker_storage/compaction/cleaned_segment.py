"""Writes a compacted segment to `.cleaned` files."""

from collections.abc import Iterable

from pykbroker_protocol.records.batch import RecordBatch
from pykbroker_storage.filesystem import FileSystem, sync_file, write_file, write_fully
from pykbroker_storage.index import OFFSET_ENTRY_BYTES, TIME_ENTRY_BYTES
from pykbroker_storage.segment import LOG_SUFFIX, NO_TIMESTAMP, CompactedBytes
from pykbroker_storage.segment_indexes import (
    OFFSET_INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    SegmentIndexes,
)
from pykbroker_storage.segment_swap import CLEANED_SUFFIX, remove_cleaned, stem_of
from pykbroker_storage.transaction_index import (
    TRANSACTION_INDEX_SUFFIX,
    AbortedTransaction,
    encode_aborted,
)

BUFFER_BYTES = 256 * 1024
# Flushes in parts, so that the disk does not receive a whole segment at once.
FLUSH_BYTES = 16 * 1024 * 1024


class CleanedSegment:
    """Accepts batches in offset order; `finish` flushes all files."""

    def __init__(
        self, filesystem: FileSystem, directory: str, base_offset: int, *, index_interval_bytes: int
    ) -> None:
        self.base_offset = base_offset
        self.size_bytes = 0
        self.max_timestamp_ms = NO_TIMESTAMP
        self.max_timestamp_offset = base_offset
        self._filesystem = filesystem
        self._directory = directory
        self._index_interval_bytes = index_interval_bytes
        self._indexes = SegmentIndexes()
        self._buffer = bytearray()
        self._written_bytes = 0
        self._flushed_bytes = 0
        write_file(filesystem, self._path(LOG_SUFFIX), b"")
        self._descriptor = filesystem.open_existing(self._path(LOG_SUFFIX))

    @property
    def result(self) -> CompactedBytes:
        return CompactedBytes(self.size_bytes, self.max_timestamp_ms, self.max_timestamp_offset)

    def append(self, batch_bytes: bytes | memoryview) -> None:
        batch = RecordBatch.parse(batch_bytes)
        self._index_batch(batch)
        self._buffer += batch_bytes
        self.size_bytes += batch.size_bytes
        if len(self._buffer) >= BUFFER_BYTES:
            self._write()

    def has_index_room(self, entries: int, segment_index_bytes: int) -> bool:
        """Returns whether each index has space; one time entry is reserved for the end."""
        indexes = self._indexes
        return (
            len(indexes.offsets) + entries <= segment_index_bytes // OFFSET_ENTRY_BYTES
            and len(indexes.times) + entries < segment_index_bytes // TIME_ENTRY_BYTES
        )

    def finish(self, aborted: Iterable[AbortedTransaction], modified_ms: int) -> None:
        """Writes and flushes all files, with the modification time of the source segment."""
        self._write()
        self._filesystem.fdatasync(self._descriptor)
        self._close()
        indexes = self._indexes
        indexes.times.append(self.max_timestamp_ms, self.max_timestamp_offset - self.base_offset)
        self._write_beside(OFFSET_INDEX_SUFFIX, indexes.offsets.to_bytes())
        self._write_beside(TIME_INDEX_SUFFIX, indexes.times.to_bytes())
        if entries := encode_aborted(aborted):
            self._write_beside(TRANSACTION_INDEX_SUFFIX, entries)
        self._filesystem.set_modified(self._path(LOG_SUFFIX), modified_ms)

    def discard(self) -> None:
        """Removes the files after a failure."""
        self._close()
        remove_cleaned(self._filesystem, stem_of(self._directory, self.base_offset))

    def _index_batch(self, batch: RecordBatch) -> None:
        if batch.max_timestamp > self.max_timestamp_ms:
            self.max_timestamp_ms = batch.max_timestamp
            self.max_timestamp_offset = batch.last_offset
        indexes = self._indexes
        if indexes.unindexed_bytes > self._index_interval_bytes:
            indexes.add(
                batch.last_offset - self.base_offset,
                self.size_bytes,
                self.max_timestamp_ms,
                self.max_timestamp_offset - self.base_offset,
            )
        indexes.unindexed_bytes += batch.size_bytes

    def _write(self) -> None:
        write_fully(self._filesystem, self._descriptor, self._buffer, self._written_bytes)
        self._written_bytes += len(self._buffer)
        if self._written_bytes - self._flushed_bytes >= FLUSH_BYTES:
            self._filesystem.fdatasync(self._descriptor)
            self._flushed_bytes = self._written_bytes
        self._buffer = bytearray()

    def _write_beside(self, suffix: str, data: bytes) -> None:
        write_file(self._filesystem, self._path(suffix), data)
        sync_file(self._filesystem, self._path(suffix))

    def _close(self) -> None:
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            self._filesystem.close(descriptor)

    def _path(self, suffix: str) -> str:
        return stem_of(self._directory, self.base_offset) + suffix + CLEANED_SUFFIX
