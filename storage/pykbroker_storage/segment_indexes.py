"""The offset index and time index of one segment, in memory and in their files."""

from collections import OrderedDict
from struct import Struct
from typing import Protocol, Self

from pykbroker_storage.filesystem import FileSystem, read_exactly, read_file, write_file
from pykbroker_storage.index import (
    OFFSET_ENTRY_BYTES,
    TIME_ENTRY_BYTES,
    MalformedIndex,
    OffsetIndex,
    TimeIndex,
)

OFFSET_INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"

_TIME_ENTRY = Struct(">qi")


class SegmentIndexes:
    """Both indexes of a segment. Offsets are relative to its base offset, as on disk."""

    __slots__ = ("offsets", "times", "unindexed_bytes")

    def __init__(self) -> None:
        self.offsets = OffsetIndex()
        self.times = TimeIndex()
        self.unindexed_bytes = 0  # since the last entry

    def add(
        self, last_offset: int, position: int, max_timestamp_ms: int, max_timestamp_offset: int
    ) -> None:
        """Adds entries for the batch at `position` and for the largest timestamp up to its end."""
        self.offsets.append(last_offset, position)
        self.times.append(max_timestamp_ms, max_timestamp_offset)
        self.unindexed_bytes = 0

    def truncate(self, position: int, offset: int) -> None:
        """Removes the entries from the batch at `position` on; its base offset is `offset`."""
        self.offsets.truncate_to_position(position)
        self.times.truncate_to_offset(offset)

    def is_full(self, segment_index_bytes: int) -> bool:
        """Returns whether an index is full; one time entry is reserved for sealing the segment."""
        entries = len(self.offsets)
        return entries >= segment_index_bytes // TIME_ENTRY_BYTES - 2 and (
            entries >= segment_index_bytes // OFFSET_ENTRY_BYTES
            or len(self.times) >= segment_index_bytes // TIME_ENTRY_BYTES - 1
        )

    def write(self, filesystem: FileSystem, stem: str) -> None:
        write_file(filesystem, stem + OFFSET_INDEX_SUFFIX, self.offsets.to_bytes())
        write_file(filesystem, stem + TIME_INDEX_SUFFIX, self.times.to_bytes())

    @classmethod
    def read(cls, filesystem: FileSystem, stem: str, *, log_bytes: int) -> Self:
        """Raises `FileNotFoundError` or `MalformedIndex`; the caller then rebuilds from the log."""
        indexes = cls()
        offsets = read_file(filesystem, stem + OFFSET_INDEX_SUFFIX)
        indexes.offsets = OffsetIndex.from_bytes(offsets, log_bytes=log_bytes)
        indexes.times = TimeIndex.from_bytes(read_file(filesystem, stem + TIME_INDEX_SUFFIX))
        if log_bytes and not len(indexes.times):
            # Sealing writes a time entry. A power loss can leave the file empty.
            raise MalformedIndex("the time index is empty")
        return indexes


def read_last_timestamp(filesystem: FileSystem, stem: str) -> tuple[int, int]:
    """Reads the largest timestamp of a sealed segment and its relative offset from the file.

    Raises like `SegmentIndexes.read`.
    """
    path = stem + TIME_INDEX_SUFFIX
    size_bytes, _ = filesystem.size_and_age(path)
    if not size_bytes or size_bytes % TIME_ENTRY_BYTES:
        raise MalformedIndex(f"index size {size_bytes} is not a multiple of {TIME_ENTRY_BYTES}")
    descriptor = filesystem.open_existing(path)
    try:
        last = size_bytes - TIME_ENTRY_BYTES
        entry = read_exactly(filesystem, descriptor, TIME_ENTRY_BYTES, last)
    finally:
        filesystem.close(descriptor)
    timestamp_ms, relative_offset = _TIME_ENTRY.unpack(entry)
    return timestamp_ms, relative_offset


class Indexed(Protocol):
    def drop_indexes(self) -> None: ...


class RecentIndexes:
    """LRU list of the sealed segments whose indexes are in memory, at most `segments_max`."""

    __slots__ = ("_segments", "_segments_max")

    def __init__(self, segments_max: int) -> None:
        self._segments_max = segments_max
        self._segments: OrderedDict[Indexed, None] = OrderedDict()

    def admit(self, segment: Indexed) -> None:
        self._segments[segment] = None
        while len(self._segments) > self._segments_max:
            oldest, _ = self._segments.popitem(last=False)
            oldest.drop_indexes()

    def remove(self, segment: Indexed) -> None:
        self._segments.pop(segment, None)
