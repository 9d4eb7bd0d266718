"""A view of a log at one moment, for slow reads on another thread.

The log's owner creates a `ReadView`; one other thread uses it. It has its own files and shares
only what the owner appends to. Then the owner calls `Log.merge`, which returns whether the
result is valid.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Concatenate, ParamSpec, TypeVar

from pykbroker_protocol.records.times import Pause, no_pause
from pykbroker_storage.filesystem import FileSystem
from pykbroker_storage.mapped_file import OpenFiles
from pykbroker_storage.segment import LogSlice, Segment
from pykbroker_storage.time_lookup import TimedOffset, first_at_or_after, latest_record
from pykbroker_storage.transaction_index import TRANSACTION_INDEX_SUFFIX, AbortedTransaction
from pykbroker_storage.transaction_index_checksums import TransactionIndexChecksums

T = TypeVar("T")
P = ParamSpec("P")

# Files that a lookup holds open: the segment it reads and the next one.
OPEN_FILES_MAX = 2


class ReadView:
    """A view for one thread. Raises `FileNotFoundError` for segments deleted meanwhile."""

    __slots__ = (
        "_copies",
        "_directory",
        "_log_start_offset",
        "_open_files",
        "_originals",
        "aborted_upto",
        "layout_version",
    )

    def __init__(
        self,
        directory: str,
        segments: Sequence[Segment],
        filesystem: FileSystem,
        *,
        log_start_offset: int,
        layout_version: int,
        aborted_upto: int | None,
    ) -> None:
        self.layout_version = layout_version
        self.aborted_upto = aborted_upto
        self._directory = directory
        self._originals = segments
        self._log_start_offset = log_start_offset
        self._open_files = OpenFiles(filesystem, OPEN_FILES_MAX, copies=True)
        # The active segment grows, so it is copied now; sealed segments are copied when needed.
        self._copies = {len(segments) - 1: segments[-1].copy_for_reading(self._open_files)}

    def __len__(self) -> int:
        return len(self._originals)

    def __iter__(self) -> Iterator[Segment]:
        for number, original in enumerate(self._originals):
            copy = self._copies.get(number)
            if copy is None:
                copy = self._copies[number] = original.copy_for_reading(self._open_files)
            yield copy

    def read(
        self, offset: int, *, bytes_max: int, end_offset: int, first_batch_whole: bool = True
    ) -> LogSlice | None:
        """Like `Log.read`, but copies the bytes."""
        return read_first(
            self,
            offset,
            bytes_max=bytes_max,
            end_offset=end_offset,
            first_batch_whole=first_batch_whole,
        )

    def aborted_transactions(self, start_offset: int, end_offset: int) -> list[AbortedTransaction]:
        """Like `Log.aborted_transactions`; raises `MalformedTransactionIndex`."""
        if self.aborted_upto is None:
            self.aborted_upto = last_with_aborted(
                self._open_files.filesystem, self._directory, self._originals[-1].checksums
            )
        return collect_aborted(self, start_offset, end_offset, self.aborted_upto)

    def offset_at_timestamp(self, timestamp_ms: int, pause: Pause = no_pause) -> TimedOffset | None:
        """Returns the first record at or after a timestamp (ListOffsets)."""
        return first_at_or_after(self, timestamp_ms, self._log_start_offset, pause)

    def latest_timestamp_record(self, pause: Pause = no_pause) -> TimedOffset | None:
        """Returns the record with the largest timestamp, the first of several."""
        return latest_record(self, self._log_start_offset, pause)

    def copies(self) -> Iterator[tuple[Segment, Segment]]:
        """Yields each segment that was read, with the copy that was read instead."""
        for number, copy in self._copies.items():
            yield self._originals[number], copy

    def use(
        self,
        work: "Callable[Concatenate[ReadView, P], T]",
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Runs `work` on this view, returns its result and closes the files."""
        self._open_files.set_owner_thread()
        try:
            return work(self, *args, **kwargs)
        finally:
            for copy in self._copies.values():
                copy.close()


def read_first(
    segments: Iterable[Segment],
    offset: int,
    *,
    bytes_max: int,
    end_offset: int,
    first_batch_whole: bool,
) -> LogSlice | None:
    for segment in segments:
        # Compaction can remove the last offsets of a segment: then the next segment has the record.
        if segment.position_of(offset) < segment.size_bytes:
            return segment.read(
                offset,
                bytes_max=bytes_max,
                end_offset=end_offset,
                first_batch_whole=first_batch_whole,
            )
    return None


def collect_aborted(
    segments: Iterable[Segment], start_offset: int, end_offset: int, upto: int
) -> list[AbortedTransaction]:
    found: list[AbortedTransaction] = []
    for segment in segments:
        if segment.base_offset > upto or segment.transaction_index.collect(
            start_offset, end_offset, found
        ):
            break
    return found


def last_with_aborted(
    filesystem: FileSystem, directory: str, checksums: TransactionIndexChecksums
) -> int:
    """Returns the base offset of the last segment with a transaction index, or -1.

    Counts recorded indexes whose file is missing. Raises `MalformedTransactionIndex`.
    """
    stems = (
        name.removesuffix(TRANSACTION_INDEX_SUFFIX)
        for name in filesystem.list_directory(directory)
        if name.endswith(TRANSACTION_INDEX_SUFFIX)
    )
    bases = (int(stem) for stem in stems if stem.isdecimal())
    return max(checksums.last_base_offset, max(bases, default=-1))
