"""Checks that the lengths of uncompressed records lead exactly to the end of their batch.

This is the only loop over records in a Produce request. Producers often send runs of records of the
same size: slices with a stride compare many of their length prefixes at a time. Other records are
skipped one by one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker_protocol.records.batch import HEADER_BYTES
from pykbroker_protocol.records.times import Pause, no_pause

if TYPE_CHECKING:
    from pykbroker_protocol.records.batch import RecordBatch

RUN_MAX = 512
SHORT_RUN = 4
"""Checking for a run costs as much as skipping this many records."""

SKIPPED_BETWEEN_CHECKS = 64
PREFIX_BYTES_MAX = 5
CHECKS_BETWEEN_PAUSES = 50
"""About half a millisecond if all records are skipped one by one."""


class NegativeLength(Exception):
    """Raised for an odd zig-zag number, which is negative."""


def records_tile(batch: RecordBatch, pause: Pause = no_pause) -> bool:
    """Returns True if the lengths of the records lead exactly to the end of the batch."""
    view = batch.view
    position, left = HEADER_BYTES, batch.record_count
    checks = 0
    try:
        while left > SHORT_RUN:
            size, payload = read_length(view, position)
            run = run_length(view, position, payload, size, min(left, RUN_MAX))
            if run > SHORT_RUN:
                position += run * (payload - position + size)
            else:
                run = min(left, SKIPPED_BETWEEN_CHECKS)
                position = skip_records(view, position, run)
            left -= run
            checks += 1
            if checks % CHECKS_BETWEEN_PAUSES == 0:
                pause()
        position = skip_records(view, position, left)
    except (IndexError, NegativeLength):
        return False
    return position == batch.size_bytes


def skip_records(view: memoryview, position: int, count: int) -> int:
    """Returns the position after `count` records; reads one- and two-byte lengths in place."""
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


def run_length(view: memoryview, position: int, payload: int, size: int, count_max: int) -> int:
    """Returns the number of records from `position` on with the same length prefix."""
    stride = payload - position + size
    run = count_max
    for at in range(position, payload):
        column = bytes(view[at : at + run * stride : stride])
        run = len(column) - len(column.lstrip(column[:1]))
    return max(run, 1)


def read_length(view: memoryview, position: int) -> tuple[int, int]:
    """Returns the length of a record and the position after it."""
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
