"""Verifies the batches of a segment and reports the first corrupt one."""

import re
from collections.abc import Callable
from struct import Struct

from pykbroker_protocol.late_dataclass import dataclass
from pykbroker_protocol.records.batch import HEADER_BYTES, PREFIX_BYTES, RecordBatch
from pykbroker_protocol.records.corrupt import CorruptBatch
from pykbroker_storage.index import RELATIVE_OFFSET_MAX
from pykbroker_storage.segment import Segment

READ_AHEAD_BYTES = 4 * 1024 * 1024
_LENGTH = Struct(">i")  # last field of the batch prefix
_MAGIC_AHEAD = re.compile(rb"(?=.{16}\x02)", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Corruption:
    """The first corrupt batch of a segment; all batches before it are valid.

    `is_found_late`: the offset, which the checksum does not cover, is wrong. Only the offset of
    the next batch revealed it.
    """

    position: int
    reason: str
    is_found_late: bool = False


def verify_batches(
    segment: Segment, end: int, take: Callable[[RecordBatch, int], None] | None = None
) -> Corruption | None:
    """Verifies every batch up to the position `end` and passes each valid one to `take`.

    Raises OSError for bytes that the disk cannot read.
    """
    data = segment.file.view_all()
    position = readable = 0
    next_offset = segment.base_offset
    gap_position = None
    while position < end:
        readable = _read_ahead(segment, data, position, readable)
        batch = _valid_batch(data, position, segment.base_offset)
        if isinstance(batch, str):
            return Corruption(position=position, reason=batch)
        if batch.base_offset < next_offset:
            reason = f"offset {batch.base_offset} follows offset {next_offset - 1}"
            if gap_position is not None:
                return Corruption(position=gap_position, reason=reason, is_found_late=True)
            return Corruption(position=position, reason=reason)
        # A gap comes from compaction, or from a wrong offset in this batch.
        gap_position = position if batch.base_offset > next_offset else None
        if take is not None:
            take(batch, position)
        next_offset = batch.next_offset
        position += batch.size_bytes
    return None


def _read_ahead(segment: Segment, data: memoryview, position: int, readable: int) -> int:
    """Makes the batch at a position, and some bytes after it, readable; returns their end."""
    readable = _make_readable(segment, readable, position + HEADER_BYTES)
    if position + PREFIX_BYTES <= readable:
        (length,) = _LENGTH.unpack_from(data, position + PREFIX_BYTES - _LENGTH.size)
        readable = _make_readable(segment, readable, position + PREFIX_BYTES + length)
    return readable


def _make_readable(segment: Segment, readable: int, required: int) -> int:
    size_bytes = segment.size_bytes
    if min(required, size_bytes) <= readable:
        return readable
    end = min(required + READ_AHEAD_BYTES, size_bytes)
    segment.file.make_readable(readable, end)
    return end


def find_valid_batch(segment: Segment, position: int) -> int | None:
    """Returns the position of the first valid batch after a corrupt one, or None."""
    data = segment.file.view_all()
    segment.file.make_readable(position, segment.size_bytes)
    for found in _MAGIC_AHEAD.finditer(data, position + 1):
        if not isinstance(_valid_batch(data, found.start(), segment.base_offset), str):
            return found.start()
    return None


def _valid_batch(data: memoryview, position: int, segment_base_offset: int) -> RecordBatch | str:
    """Returns the batch, or the reason why it is corrupt."""
    try:
        batch = RecordBatch.parse(data, position)
    except CorruptBatch as problem:
        return str(problem)
    if not 0 <= batch.last_offset - segment_base_offset <= RELATIVE_OFFSET_MAX:
        return f"offset {batch.base_offset} is outside the range of this segment"
    if not batch.is_crc_valid():
        return f"batch at offset {batch.base_offset} has a wrong checksum"
    return batch
