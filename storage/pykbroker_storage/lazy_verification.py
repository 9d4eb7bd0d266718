"""Verifies bytes written by earlier processes when they are first read.

Bytes that this process appended, or that recovery scanned, are verified already. Corruption that
happened on disk since then is found before the records are sent.
"""

from typing import Self

from pykbroker_protocol.records.batch import RecordBatch
from pykbroker_protocol.records.corrupt import CorruptBatch
from pykbroker_storage.mapped_file import MappedFile


class LazyVerification:
    """Verification state of the bytes that a segment had when it was opened.

    One contiguous range is verified; sequential reads extend it.
    """

    __slots__ = ("_size_bytes_at_open", "verified_from", "verified_to")

    def __init__(self, size_bytes_at_open: int) -> None:
        self._size_bytes_at_open = size_bytes_at_open
        self.verified_from = self.verified_to = 0

    def copy(self) -> Self:
        copy = type(self)(self._size_bytes_at_open)
        copy.verified_from, copy.verified_to = self.verified_from, self.verified_to
        return copy

    def truncate(self, size_bytes: int) -> None:
        """Excludes removed bytes: this process appends others in their place."""
        self._size_bytes_at_open = min(self._size_bytes_at_open, size_bytes)
        self.verified_to = min(self.verified_to, size_bytes)
        self.verified_from = min(self.verified_from, size_bytes)

    def needs_check(self, start: int, end: int) -> bool:
        """Returns whether bytes from `start` to `end` are not verified yet."""
        is_known = (
            self.verified_from <= start and min(end, self._size_bytes_at_open) <= self.verified_to
        )
        return start < self._size_bytes_at_open and not is_known

    @property
    def is_complete(self) -> bool:
        return self.verified_from == 0 and self.verified_to >= self._size_bytes_at_open

    def first_corrupt(self, file: MappedFile, start: int, end: int) -> int | None:
        """Returns the position of the first corrupt batch between `start` and `end`, or None."""
        if not self.verified_from <= start <= self.verified_to:
            self.verified_from = self.verified_to = start
        end = min(end, self._size_bytes_at_open)
        if self.verified_to >= end:
            return None
        unchecked = file.view(self.verified_to, end)  # one view, because a thread reads copies
        while unchecked:
            size = valid_batch_bytes(unchecked)
            if size is None:
                return self.verified_to
            self.verified_to += size
            unchecked = unchecked[size:]
        return None


def valid_batch_bytes(data: memoryview) -> int | None:
    """Returns the size of the first batch, or None if it is corrupt."""
    try:
        batch = RecordBatch.parse(data)
    except CorruptBatch:
        return None
    return batch.size_bytes if batch.is_crc_valid() else None
