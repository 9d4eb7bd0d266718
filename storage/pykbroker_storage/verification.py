"""Reads a segment batch by batch and tells of the first that is not good."""

import re
from collections.abc import Callable
from struct import Struct

from pykbroker_protocol.late_dataclass import dataclass
from pykbroker_protocol.records.batch import HEADER_BYTES, PREFIX_BYTES, RecordBatch
from pykbroker_protocol.records.corrupt import CorruptBatch
from pykbroker_storage.index import RELATIVE_OFFSET_MAX
from pykbroker_storage.segment import Segment

READ_AHEAD_BYTES = 4 * 1024 * 1024
_LENGTH = Struct(">i")  # at the end of a batch's prefix
_MAGIC_AHEAD = re.compile(rb"(?=.{16}\x02)", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """The first batch that is not good; all before it are.

    `is_found_late`: the checksum does not cover the offset, only the batch after it gave the
    wrong one away.
    """

    position: int
    reason: str
    is_found_late: bool = False


def walk(
    segment: Segment, end: int, take: Callable[[RecordBatch, int], None] | None = None
) -> Damage | None:
    """Checks every batch up to the position `end`, and hands each good one to `take`.

    Raises OSError for bytes that the disk cannot read.
    """
    data = segment.file.view_all()
    position = readable = 0
    next_offset = segment.base_offset
    gap_position = None
    while position < end:
        readable = _read_ahead(segment, data, position, readable)
        batch = _good_batch(data, position, segment.base_offset)
        if isinstance(batch, str):
            return Damage(position=position, reason=batch)
        if batch.base_offset < next_offset:
            reason = f"offset {batch.base_offset} follows offset {next_offset - 1}"
            if gap_position is not None:
                return Damage(position=gap_position, reason=reason, is_found_late=True)
            return Damage(position=position, reason=reason)
        # Compaction leaves gaps; so would a wrong offset.
        gap_position = position if batch.base_offset > next_offset else None
        if take is not None:
            take(batch, position)
        next_offset = batch.next_offset
        position += batch.size_bytes
    return None


def _read_ahead(segment: Segment, data: memoryview, position: int, readable: int) -> int:
    """Makes the batch at a position readable, and some bytes behind it; returns their end."""
    readable = _make_readable(segment, readable, position + HEADER_BYTES)
    if position + PREFIX_BYTES <= readable:
        (length,) = _LENGTH.unpack_from(data, position + PREFIX_BYTES - _LENGTH.size)
        readable = _make_readable(segment, readable, position + PREFIX_BYTES + length)
    return readable


def _make_readable(segment: Segment, readable: int, wanted: int) -> int:
    size_bytes = segment.size_bytes
    if min(wanted, size_bytes) <= readable:
        return readable
    end = min(wanted + READ_AHEAD_BYTES, size_bytes)
    segment.file.make_readable(readable, end)
    return end


def find_whole_batch(segment: Segment, position: int) -> int | None:
    """The position of the first whole batch behind a damaged one; None if there is none."""
    data = segment.file.view_all()
    segment.file.make_readable(position, segment.size_bytes)
    for found in _MAGIC_AHEAD.finditer(data, position + 1):
        if not isinstance(_good_batch(data, found.start(), segment.base_offset), str):
            return found.start()
    return None


def _good_batch(data: memoryview, position: int, segment_base_offset: int) -> RecordBatch | str:
    """The batch, or what is wrong with it."""
    try:
        batch = RecordBatch.parse(data, position)
    except CorruptBatch as problem:
        return str(problem)
    if not 0 <= batch.last_offset - segment_base_offset <= RELATIVE_OFFSET_MAX:
        return f"offset {batch.base_offset} is not of this segment"
    if not batch.is_crc_valid():
        return f"the checksum of the batch at offset {batch.base_offset} is wrong"
    return batch
