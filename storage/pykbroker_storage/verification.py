"""Reads a segment batch by batch and tells of the first that is not good."""

import re
from collections.abc import Callable

from pykbroker_protocol.late_dataclass import dataclass
from pykbroker_protocol.records.batch import RecordBatch
from pykbroker_protocol.records.corrupt import CorruptBatch
from pykbroker_storage.index import RELATIVE_OFFSET_MAX
from pykbroker_storage.segment import Segment

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
    """Checks every batch up to the position `end`, and hands each good one to `take`."""
    data = segment.file.view_all()
    position = 0
    next_offset = segment.base_offset
    gap_position = None
    while position < end:
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


def find_whole_batch(segment: Segment, position: int) -> int | None:
    """The position of the first whole batch behind a damaged one; None if there is none."""
    data = segment.file.view_all()
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
