"""Bytes that were on the disk before the log was opened are checked when somebody first reads them.

What this process has appended was checked before it was written, and what recovery has scanned
was checked then. A byte that has changed while nobody looked is found here, before it is served.
"""

from typing import Self

from pykbroker_protocol.records.batch import RecordBatch
from pykbroker_protocol.records.corrupt import CorruptBatch
from pykbroker_storage.mapped_file import MappedFile


class LazyVerification:
    """One stretch of a segment's old bytes is known to be good; readers in sequence extend it."""

    __slots__ = ("_old_bytes", "good_from", "good_to")

    def __init__(self, old_bytes: int) -> None:
        self._old_bytes = old_bytes
        self.good_from = self.good_to = 0

    def copy(self) -> Self:
        copy = type(self)(self._old_bytes)
        copy.good_from, copy.good_to = self.good_from, self.good_to
        return copy

    def is_due(self, start: int, end: int) -> bool:
        """Whether any of the bytes from `start` to `end` is to be checked yet."""
        is_known = self.good_from <= start and min(end, self._old_bytes) <= self.good_to
        return start < self._old_bytes and not is_known

    @property
    def is_over(self) -> bool:
        return self.good_from == 0 and self.good_to >= self._old_bytes

    def first_bad(self, file: MappedFile, start: int, end: int) -> int | None:
        """Of the batches from `start` to `end`: where the first begins that is not good."""
        if not self.good_from <= start <= self.good_to:
            self.good_from = self.good_to = start
        end = min(end, self._old_bytes)
        if self.good_to >= end:
            return None
        unchecked = file.view(self.good_to, end)  # once: a thread reads copies
        while unchecked:
            size = valid_batch_bytes(unchecked)
            if size is None:
                return self.good_to
            self.good_to += size
            unchecked = unchecked[size:]
        return None


def valid_batch_bytes(data: memoryview) -> int | None:
    """The size of the first batch, if it is a good one."""
    try:
        batch = RecordBatch.parse(data)
    except CorruptBatch:
        return None
    return batch.size_bytes if batch.is_crc_valid() else None
