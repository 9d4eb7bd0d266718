"""The sparse indexes of a segment: position by offset, and offset by timestamp.

In memory each index is two flat arrays. On disk entries are big-endian, with offsets relative to
the segment's base offset:

    .index      offset i32, position i32    the last offset of the batch at that position
    .timeindex  timestamp i64, offset i32   no record up to that offset has a later timestamp
"""

import sys
from array import array
from bisect import bisect_left, bisect_right
from typing import Self

OFFSET_ENTRY_BYTES = 8
TIME_ENTRY_BYTES = 12
RELATIVE_OFFSET_MAX = 2**31 - 1

_LITTLE_ENDIAN = sys.byteorder == "little"


class MalformedIndex(ValueError):
    """The bytes are not a valid index of this segment; it can be rebuilt from the log."""


class OffsetIndex:
    __slots__ = ("_offsets", "_positions")

    def __init__(self) -> None:
        self._offsets = array("I")
        self._positions = array("I")

    def __len__(self) -> int:
        return len(self._offsets)

    def append(self, relative_offset: int, position: int) -> None:
        self._positions.append(position)  # first: lookups on other threads begin with offsets
        self._offsets.append(relative_offset)

    def position_at_or_before(self, relative_offset: int) -> int:
        """Returns a position from which a forward scan finds the batch with this offset."""
        entry = bisect_right(self._offsets, relative_offset)
        return self._positions[entry - 1] if entry else 0

    def last_position_up_to(self, position: int) -> int:
        """Returns the last indexed batch boundary at or before `position`."""
        entry = bisect_right(self._positions, position)
        return self._positions[entry - 1] if entry else 0

    @property
    def last_position(self) -> int:
        return self._positions[-1] if self._positions else 0

    def truncate_to_position(self, position: int) -> None:
        """Removes the entries of all batches at `position` or later."""
        keep = bisect_left(self._positions, position)
        del self._offsets[keep:]
        del self._positions[keep:]

    def to_bytes(self) -> bytes:
        words = array("I", bytes(OFFSET_ENTRY_BYTES * len(self._offsets)))
        words[0::2] = self._offsets
        words[1::2] = self._positions
        _to_or_from_big_endian(words)
        return words.tobytes()

    @classmethod
    def from_bytes(cls, data: bytes, *, log_bytes: int) -> Self:
        """Decodes the index of a segment of `log_bytes`; raises `MalformedIndex`."""
        if len(data) % OFFSET_ENTRY_BYTES:
            raise MalformedIndex(
                f"index size {len(data)} is not a multiple of {OFFSET_ENTRY_BYTES}"
            )
        words = array("I", data)
        _to_or_from_big_endian(words)
        index = cls()
        index._offsets = words[0::2]
        index._positions = words[1::2]
        if not (_is_increasing(index._offsets) and _is_increasing(index._positions)):
            raise MalformedIndex("index entries are not in ascending order")
        if index._positions and index._positions[-1] >= log_bytes:
            raise MalformedIndex("an index entry points beyond the end of the log")
        return index


class TimeIndex:
    __slots__ = ("_offsets", "_timestamps")

    def __init__(self) -> None:
        self._timestamps = array("q")
        self._offsets = array("I")

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def last_timestamp(self) -> int:
        return self._timestamps[-1] if self._timestamps else -1

    @property
    def last_relative_offset(self) -> int:
        return self._offsets[-1] if self._offsets else 0

    def append(self, timestamp_ms: int, relative_offset: int) -> None:
        """Adds an entry if the timestamp is larger than all before."""
        if timestamp_ms > self.last_timestamp:
            self._offsets.append(relative_offset)  # first, because lookups read timestamps first
            self._timestamps.append(timestamp_ms)

    def offset_before(self, timestamp_ms: int) -> int:
        """Returns a relative offset below which every record is older than `timestamp_ms`."""
        entry = bisect_left(self._timestamps, timestamp_ms)
        return self._offsets[entry - 1] if entry else 0

    def truncate_to_offset(self, relative_offset: int) -> None:
        """Removes the entries at `relative_offset` and later."""
        keep = bisect_left(self._offsets, relative_offset)
        del self._timestamps[keep:]
        del self._offsets[keep:]

    def to_bytes(self) -> bytes:
        timestamps = array("q", self._timestamps)
        _to_or_from_big_endian(timestamps)
        halves = array("I", timestamps.tobytes())
        offsets = array("I", self._offsets)
        _to_or_from_big_endian(offsets)
        words = array("I", bytes(TIME_ENTRY_BYTES * len(offsets)))
        words[0::3] = halves[0::2]
        words[1::3] = halves[1::2]
        words[2::3] = offsets
        return words.tobytes()

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Decodes a time index; raises `MalformedIndex`."""
        if len(data) % TIME_ENTRY_BYTES:
            raise MalformedIndex(f"index size {len(data)} is not a multiple of {TIME_ENTRY_BYTES}")
        words = array("I", data)
        halves = array("I", bytes(2 * len(data) // 3))
        halves[0::2] = words[0::3]
        halves[1::2] = words[1::3]
        index = cls()
        index._timestamps = array("q", halves.tobytes())
        index._offsets = words[2::3]
        _to_or_from_big_endian(index._timestamps)
        _to_or_from_big_endian(index._offsets)
        # A log without timestamps ends its time index with timestamp -1.
        if not _is_increasing(index._timestamps):
            raise MalformedIndex("index entries are not in ascending order")
        return index


def _to_or_from_big_endian(words: "array[int]") -> None:
    if _LITTLE_ENDIAN:
        words.byteswap()


def _is_increasing(values: "array[int]") -> bool:
    return all(map(int.__lt__, values, values[1:]))
