"""The segments of one log in offset order; the last one is active."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import suppress
from zlib import crc32

from pykbroker_protocol.records.batch import RecordBatch
from pykbroker_storage.configuration import LogConfiguration
from pykbroker_storage.deletion import PendingDeletions
from pykbroker_storage.filesystem import NotCached
from pykbroker_storage.index import RELATIVE_OFFSET_MAX
from pykbroker_storage.mapped_file import OpenFiles
from pykbroker_storage.read_view import ReadView, collect_aborted, last_with_aborted, read_first
from pykbroker_storage.retention import SegmentAge
from pykbroker_storage.segment import (
    INDEX_SUFFIXES,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    CompactedBytes,
    LogSlice,
    Segment,
)
from pykbroker_storage.segment_factory import compacted_segment, create_segment
from pykbroker_storage.segment_swap import mark_complete, remove_originals, rename_to_final
from pykbroker_storage.transaction_index import (
    TRANSACTION_INDEX_SUFFIX,
    AbortedTransaction,
    MalformedTransactionIndex,
    TransactionIndex,
)


class Segments:
    """A list of at least one segment; `active`, the last one, receives appends."""

    __slots__ = (
        "_aborted_upto",
        "_checksums",
        "_directory",
        "_list",
        "_open_files",
        "_pending_deletions",
        "active",
    )

    def __init__(
        self,
        directory: str,
        segments: list[Segment],
        *,
        open_files: OpenFiles,
        pending_deletions: PendingDeletions,
    ) -> None:
        self._directory = directory
        self._list = segments
        self._open_files = open_files
        self._pending_deletions = pending_deletions
        self.active = segments[-1]
        self._checksums = self.active.checksums
        # Base offset of the last segment with aborted transactions; None until it is first needed.
        self._aborted_upto: int | None = None

    def __len__(self) -> int:
        return len(self._list)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._list)

    def __contains__(self, segment: object) -> bool:
        return segment in self._list

    def begin(self, base_offset: int, now_ms: int) -> None:
        """Starts a new active segment; it replaces the current one if that is empty."""
        following = self._new_segment(base_offset, now_ms)
        if self.active.size_bytes:
            self.active.seal()
        else:
            self._list.pop().remove()
        self._list.append(following)
        self.active = following

    def read(
        self, offset: int, *, bytes_max: int, end_offset: int, first_batch_whole: bool
    ) -> LogSlice | None:
        return read_first(
            self.since(offset),
            offset,
            bytes_max=bytes_max,
            end_offset=end_offset,
            first_batch_whole=first_batch_whole,
        )

    def aborted_transactions(self, start_offset: int, end_offset: int) -> list[AbortedTransaction]:
        """Reads later segments, too, for markers; raises `MalformedTransactionIndex`."""
        if self._aborted_upto is None:
            if not self._open_files.may_block:
                raise NotCached
            self._aborted_upto = last_with_aborted(
                self._open_files.filesystem, self._directory, self._checksums
            )
        return collect_aborted(
            self.since(start_offset), start_offset, end_offset, self._aborted_upto
        )

    def read_view(self, offset: int, *, log_start_offset: int, layout_version: int) -> ReadView:
        return ReadView(
            self._directory,
            self.since(offset),
            self._open_files.filesystem,
            log_start_offset=log_start_offset,
            layout_version=layout_version,
            aborted_upto=self._aborted_upto,
        )

    def merge(self, view: ReadView) -> None:
        """Takes over what a thread loaded and verified, for segments that still exist."""
        if self._aborted_upto is None:
            self._aborted_upto = view.aborted_upto
        for segment, copy in view.copies():
            if segment.base_offset >= self.base_offset:
                segment.merge(copy)

    def first_corrupt_transaction_index(self) -> int:
        """Returns the base offset of the first segment with a corrupt transaction index."""
        self._aborted_upto = None
        for segment in self._list:
            try:
                segment.transaction_index  # noqa: B018 - reads and checks the file
            except MalformedTransactionIndex:
                return segment.base_offset
        return self.active.base_offset

    def add_aborted(self, transaction: AbortedTransaction) -> None:
        """Adds a transaction that the last batch aborts."""
        self.active.add_aborted(transaction)
        self._aborted_upto = self.active.base_offset

    def since(self, offset: int) -> Sequence[Segment]:
        """Returns the segments from the one that contains `offset`."""
        return since(self._list, offset)

    @property
    def base_offset(self) -> int:
        return self._list[0].base_offset

    @property
    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self._list)

    def ages(self) -> list[SegmentAge]:
        return [
            SegmentAge(segment.next_offset, segment.size_bytes, segment.largest_timestamp_ms)
            for segment in self._list
        ]

    def count_below(self, offset: int) -> int:
        """Counts the sealed segments whose records are all below `offset`."""
        return sum(segment.next_offset <= offset for segment in self._list[:-1])

    def drop_oldest(self, count: int, due_ms: int) -> None:
        """Removes the oldest segments; their files are unlinked after `due_ms`."""
        for _ in range(count):
            segment = self._list.pop(0)  # before its files: a concurrent flush then skips it
            try:
                self._delete_files(segment, due_ms)
            except BaseException:
                self._list.insert(0, segment)
                raise

    def truncate_to(self, offset: int, due_ms: int) -> None:
        """Removes every batch that reaches `offset` or beyond."""
        keep = self._number(offset) + 1
        for segment in self._list[keep:]:
            self._delete_files(segment, due_ms)
        del self._list[keep:]
        self.active = self._list[-1]
        self.active.truncate_to_offset(offset)

    def holds(self, segments: Sequence[Segment]) -> bool:
        """Returns whether these segments are still in the list, adjacent and sealed."""
        first = self._number(segments[0].base_offset)
        found = self._list[first : first + len(segments)]
        return found == segments and found[-1] is not self.active

    def replace(self, segments: Sequence[Segment], compacted: CompactedBytes, due_ms: int) -> None:
        """Replaces segments by the output of compaction."""
        replacement = compacted_segment(self._directory, segments, compacted, self._open_files)
        filesystem, stem = self._open_files.filesystem, replacement.path("")
        mark_complete(filesystem, stem)
        for segment in segments:
            segment.close()
        remove_originals(
            [segment.path("") for segment in segments],
            lambda path: self._pending_deletions.schedule_file(path, due_ms),
        )
        rename_to_final(filesystem, stem)
        for segment in segments:
            self._checksums.remove(segment.base_offset)
        index = TransactionIndex.read(filesystem, replacement.path(TRANSACTION_INDEX_SUFFIX))
        self._checksums.record(replacement.base_offset, index.to_bytes())
        first = self._number(segments[0].base_offset)
        self._list[first : first + len(segments)] = [replacement]

    def restart_at(self, base_offset: int, *, due_ms: int, now_ms: int) -> None:
        self.drop_oldest(len(self._list), due_ms)
        self.active = self._new_segment(base_offset, now_ms)
        self._list.append(self.active)

    def flush(self, start_offset: int, end_offset: int) -> None:
        """Flushes the records between two offsets and the indexes of sealed segments.

        May run on another thread: it iterates over a copy of the list, which can change meanwhile.
        """
        for segment in since(self._list.copy(), start_offset):
            if segment.base_offset >= end_offset:
                break
            try:
                segment.flush_records()
                if segment.is_sealed:
                    segment.flush_indexes()
            except FileNotFoundError:
                if segment in self._list:
                    raise  # else the segment was deleted meanwhile

    def rewrite_in_place(self, start_offset: int) -> None:
        """Rewrites the files of all segments with records from `start_offset`, in place."""
        from pykbroker_storage.flush_retry import (  # noqa: PLC0415 - hardly ever needed
            rewrite_batches,
            rewrite_file,
        )

        filesystem = self._open_files.filesystem
        for segment in since(self._list.copy(), start_offset):  # on any thread, like `flush`
            try:
                log_file = segment.path(LOG_SUFFIX)
                rewrite_batches(filesystem, log_file, segment.size_bytes, start_offset)
            except FileNotFoundError:
                if segment in self._list:
                    raise  # else the segment was deleted meanwhile
            for suffix in INDEX_SUFFIXES:
                with suppress(FileNotFoundError):
                    rewrite_file(filesystem, segment.path(suffix))

    def close(self) -> None:
        """Closes the files of all segments."""
        for segment in self._list:
            segment.close()

    def _number(self, offset: int) -> int:
        return number_of(self._list, offset)

    def _new_segment(self, base_offset: int, now_ms: int) -> Segment:
        return create_segment(
            self._directory, base_offset, self._open_files, self._checksums, now_ms
        )

    def _delete_files(self, segment: Segment, due_ms: int) -> None:
        segment.close()
        self._checksums.remove(segment.base_offset)
        for suffix in SEGMENT_SUFFIXES:
            self._pending_deletions.schedule_file(segment.path(suffix), due_ms)


def since(segments: Sequence[Segment], offset: int) -> Sequence[Segment]:
    """Returns the segments from the one that contains `offset`."""
    return segments[number_of(segments, offset) :]


def number_of(segments: Sequence[Segment], offset: int) -> int:
    """Returns the index of the segment that contains `offset`."""
    found = bisect_right(segments, offset, key=lambda segment: segment.base_offset) - 1
    return max(found, 0)


def is_roll_due(
    segment: Segment,
    configuration: LogConfiguration,
    records_bytes: int,
    last: RecordBatch,
    now_ms: int,
) -> bool:
    """Returns whether the batches up to `last` must start a new segment.

    An empty segment accepts batches of any size, unless their offsets are too far from its base
    offset.
    """
    last_offset = last.base_offset + last.last_offset_delta
    if last_offset - segment.base_offset > RELATIVE_OFFSET_MAX:
        return True
    size_bytes = segment.file.size_bytes
    if not size_bytes:
        return False
    if size_bytes + records_bytes > configuration.segment_bytes:
        return True
    if segment.indexes.is_full(configuration.segment_index_bytes):
        return True
    # The age is measured by record timestamps, or by the clock if records have none. So a replay
    # of old records rolls segments like the original stream.
    first_ms = segment.first_timestamp_ms
    age_ms = now_ms - segment.created_ms if first_ms < 0 else last.max_timestamp - first_ms
    jitter_max_ms = configuration.segment_jitter_ms
    if jitter_max_ms:
        age_ms += _jitter_ms(segment, jitter_max_ms)
    return age_ms > configuration.segment_ms_max


def _jitter_ms(segment: Segment, jitter_max_ms: int) -> int:
    """Differs between segments, so that not all roll at once, and is constant per segment."""
    return crc32(segment.file.path.encode()) % jitter_max_ms
