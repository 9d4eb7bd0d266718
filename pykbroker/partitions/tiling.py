"""Whether uncompressed records lie one behind the other, up to the end of their batch.

The one loop over records on the way of a Produce. Producers send runs of records of one size, and
those lie at equal distances: their length prefixes are compared many at a time, by slices with a
stride. Where sizes differ from record to record, they are walked one by one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker_protocol.records.batch import HEADER_BYTES
from pykbroker_protocol.records.times import Pause, no_pause

if TYPE_CHECKING:
    from pykbroker_protocol.records.batch import RecordBatch

RUN_MAX = 512
SHORT_RUN = 4
"""A look at a run costs as much as walking so many records."""

WALKED_BETWEEN_LOOKS = 64
PREFIX_BYTES_MAX = 5
LOOKS_BETWEEN_PAUSES = 50
"""About half a millisecond, if all records are walked."""


class NegativeLength(Exception):
    """Zig-zag: an odd number is a negative one."""


def records_tile(batch: RecordBatch, pause: Pause = no_pause) -> bool:
    """Whether the records' lengths lead exactly to the end of the batch."""
    view = batch.view
    position, left = HEADER_BYTES, batch.record_count
    looks = 0
    try:
        while left > SHORT_RUN:
            size, behind = read_length(view, position)
            run = run_length(view, position, behind, size, min(left, RUN_MAX))
            if run > SHORT_RUN:
                position += run * (behind - position + size)
            else:
                run = min(left, WALKED_BETWEEN_LOOKS)
                position = walk(view, position, run)
            left -= run
            looks += 1
            if looks % LOOKS_BETWEEN_PAUSES == 0:
                pause()
        position = walk(view, position, left)
    except (IndexError, NegativeLength):
        return False
    return position == batch.size_bytes


def walk(view: memoryview, position: int, count: int) -> int:
    """The position behind so many records; one- and two-byte lengths are read in place."""
    for _ in range(count):
        size = view[position]
        if size < 0x80:
            position += 1
        elif (second := view[position + 1]) < 0x80:
            size = size & 0x7F | second << 7
            position += 2
        else:
            size, position = read_length(view, position)
            size <<= 1
        if size & 1:
            raise NegativeLength
        position += size >> 1
    return position


def run_length(view: memoryview, position: int, behind: int, size: int, count_max: int) -> int:
    """How many records from here on have the same length prefix, each where the last one ends."""
    stride = behind - position + size
    run = count_max
    for at in range(position, behind):
        column = bytes(view[at : at + run * stride : stride])
        run = len(column) - len(column.lstrip(column[:1]))
    return max(run, 1)


def read_length(view: memoryview, position: int) -> tuple[int, int]:
    """A record's length and the position behind it."""
    value = 0
    for shift in range(0, 7 * PREFIX_BYTES_MAX, 7):
        byte = view[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value & 1:
                raise NegativeLength
            return value >> 1, position
    raise IndexError("a length of more than five bytes")
