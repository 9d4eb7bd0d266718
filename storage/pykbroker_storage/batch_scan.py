"""Finds batch boundaries in a segment file by reading batch headers."""

from struct import Struct
from typing import NamedTuple

from pykbroker_protocol.records.batch import HEADER_BYTES, PREFIX_BYTES
from pykbroker_storage.mapped_file import MappedFile

# Bytes per read: twice the default distance of index entries.
SCAN_BYTES = 8192
NEVER = 2**63

# base offset, length, (leader epoch, magic, crc, attributes,) last offset delta
_BOUNDS = Struct(">qi11xi")


class CorruptLog(Exception):
    """The stored bytes are not a sequence of valid record batches; the message says where."""


class FlushedDataLost(CorruptLog):
    """Flushed batches are corrupt or missing in a log that forbids data loss."""


class BatchBounds(NamedTuple):
    position: int
    end: int
    base_offset: int
    last_offset: int


def first_batch(
    file: MappedFile, position: int, *, reaching: int = NEVER, ending_after: int = NEVER
) -> BatchBounds | None:
    """Scans from a batch boundary to the first batch with that offset, or with that end."""
    size_bytes = file.size_bytes
    unpack = _BOUNDS.unpack_from
    while position < size_bytes:
        window = file.view(position, min(position + SCAN_BYTES, size_bytes))
        at = 0
        last_start = len(window) - HEADER_BYTES
        while at <= last_start:
            base_offset, length, last_offset_delta = unpack(window, at)
            end = position + at + length + PREFIX_BYTES
            if length < HEADER_BYTES - PREFIX_BYTES or end > size_bytes:
                raise CorruptLog(f"{file.path}: no valid batch header at position {position + at}")
            last_offset = base_offset + last_offset_delta
            if last_offset >= reaching or end > ending_after:
                return BatchBounds(position + at, end, base_offset, last_offset)
            at = end - position
        if at == 0:
            raise CorruptLog(f"{file.path}: file ends within the batch at position {position}")
        position += at
    return None
