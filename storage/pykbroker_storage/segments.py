"""The segments of one log, in order; the last one is written to."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import suppress

from pykbroker_storage.deletion import PendingDeletions
from pykbroker_storage.filesystem import NotCached
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
from pykbroker_storage.segment_swap import announce, remove_originals, settle
from pykbroker_storage.transaction_index import (
    TRANSACTION_INDEX_SUFFIX,
    AbortedTransaction,
    MalformedTransactionIndex,
    TransactionIndex,
)


class Segments:
    """There is always one; `active` is the last."""

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
        # No segment behind this one has aborted transactions; None until somebody asks.
        self._aborted_upto: int | None = None

    def __len__(self) -> int:
        return len(self._list)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._list)

    def __contains__(self, segment: object) -> bool:
        return segment in self._list

    def begin(self, base_offset: int, now_ms: int) -> None:
        """A new active segment, after the present one or, if that is empty, in its place."""
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
        """Their markers may lie in later segments; raises `MalformedTransactionIndex`."""
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
        """Keeps what a thread has loaded and verified, of the segments that are still there."""
        if self._aborted_upto is None:
            self._aborted_upto = view.aborted_upto
        for segment, copy in view.copies():
            if segment.base_offset >= self.base_offset:
                segment.merge(copy)

    def first_damaged_aborted(self) -> int:
        """The base offset of the first segment whose aborted transactions are in doubt."""
        self._aborted_upto = None
        for segment in self._list:
            try:
                segment.aborted  # noqa: B018 - reads and checks the file
            except MalformedTransactionIndex:
                return segment.base_offset
        return self.active.base_offset

    def add_aborted(self, transaction: AbortedTransaction) -> None:
        """Its marker is the last batch."""
        self.active.add_aborted(transaction)
        self._aborted_upto = self.active.base_offset

    def since(self, offset: int) -> Sequence[Segment]:
        """From the one that would hold `offset` on."""
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
        """How many sealed segments hold nothing from `offset` on."""
        return sum(segment.next_offset <= offset for segment in self._list[:-1])

    def drop_oldest(self, count: int, due_ms: int) -> None:
        """Takes them away; their bytes are unlinked when `due_ms` has come."""
        for _ in range(count):
            segment = self._list.pop(0)  # before its files go: a flush in a thread would miss them
            try:
                self._bury(segment, due_ms)
            except BaseException:
                self._list.insert(0, segment)
                raise

    def truncate_to(self, offset: int, due_ms: int) -> None:
        """Removes every batch that reaches to `offset` or beyond."""
        keep = self._number(offset) + 1
        for segment in self._list[keep:]:
            self._bury(segment, due_ms)
        del self._list[keep:]
        self.active = self._list[-1]
        self.active.truncate_to_offset(offset)

    def holds(self, segments: Sequence[Segment]) -> bool:
        """Whether these are there still, side by side, none of them written to."""
        first = self._number(segments[0].base_offset)
        found = self._list[first : first + len(segments)]
        return found == segments and found[-1] is not self.active

    def replace(self, segments: Sequence[Segment], left: CompactedBytes, due_ms: int) -> None:
        """What compaction has left of these takes their place."""
        compacted = compacted_segment(self._directory, segments, left, self._open_files)
        filesystem, stem = self._open_files.filesystem, compacted.path("")
        announce(filesystem, stem)
        for segment in segments:
            segment.close()
        remove_originals(
            [segment.path("") for segment in segments],
            lambda path: self._pending_deletions.schedule_file(path, due_ms),
        )
        settle(filesystem, stem)
        for segment in segments:
            self._checksums.forget(segment.base_offset)
        left_aborted = TransactionIndex.read(filesystem, compacted.path(TRANSACTION_INDEX_SUFFIX))
        self._checksums.note(compacted.base_offset, left_aborted.to_bytes())
        first = self._number(segments[0].base_offset)
        self._list[first : first + len(segments)] = [compacted]

    def begin_anew(self, base_offset: int, *, due_ms: int, now_ms: int) -> None:
        self.drop_oldest(len(self._list), due_ms)
        self.active = self._new_segment(base_offset, now_ms)
        self._list.append(self.active)

    def flush(self, start_offset: int, end_offset: int) -> None:
        """Makes the records from one offset to the other durable, and the indexes with them.

        May run on another thread: it goes through a copy of the list, which changes meanwhile.
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
                    raise  # else it was deleted meanwhile

    def write_again(self, start_offset: int) -> None:
        """Writes the files of all segments with records from an offset on again, in place."""
        from pykbroker_storage.flush_retry import (  # noqa: PLC0415 - hardly ever needed
            write_batches_again,
            write_file_again,
        )

        filesystem = self._open_files.filesystem
        for segment in since(self._list.copy(), start_offset):  # on any thread, as `flush`
            try:
                log_file = segment.path(LOG_SUFFIX)
                write_batches_again(filesystem, log_file, segment.size_bytes, start_offset)
            except FileNotFoundError:
                if segment in self._list:
                    raise  # else it was deleted meanwhile
            for suffix in INDEX_SUFFIXES:
                with suppress(FileNotFoundError):
                    write_file_again(filesystem, segment.path(suffix))

    def close(self) -> None:
        """The files; nobody asks for the segments any longer."""
        for segment in self._list:
            segment.close()

    def _number(self, offset: int) -> int:
        return number_of(self._list, offset)

    def _new_segment(self, base_offset: int, now_ms: int) -> Segment:
        return create_segment(
            self._directory, base_offset, self._open_files, self._checksums, now_ms
        )

    def _bury(self, segment: Segment, due_ms: int) -> None:
        segment.close()
        self._checksums.forget(segment.base_offset)
        for suffix in SEGMENT_SUFFIXES:
            self._pending_deletions.schedule_file(segment.path(suffix), due_ms)


def since(segments: Sequence[Segment], offset: int) -> Sequence[Segment]:
    """From the one that would hold `offset` on."""
    return segments[number_of(segments, offset) :]


def number_of(segments: Sequence[Segment], offset: int) -> int:
    """Of the segment that would hold `offset`."""
    found = bisect_right(segments, offset, key=lambda segment: segment.base_offset) - 1
    return max(found, 0)
