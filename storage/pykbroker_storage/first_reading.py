"""Bytes that were on the disk before the log was opened are checked when somebody first reads them.

What this process has appended was checked before it was written, and what recovery has scanned
was checked then. A byte that has changed while nobody looked is found here, before it is served.
"""

from pykbroker_protocol.records.batch import RecordBatch
from pykbroker_protocol.records.corrupt import CorruptBatch
from pykbroker_storage.mapped_file import MappedFile


class FirstReading:
    """One stretch of a segment's old bytes is known to be good; readers in sequence extend it."""

    __slots__ = ("_good_from", "_good_to", "_old_bytes")

    def __init__(self, old_bytes: int) -> None:
        self._old_bytes = old_bytes
        self._good_from = self._good_to = 0

    @property
    def is_over(self) -> bool:
        return self._good_from == 0 and self._good_to >= self._old_bytes

    def first_bad(self, file: MappedFile, start: int, end: int) -> int | None:
        """Of the batches from `start` to `end`: where the first begins that is not good."""
        if not self._good_from <= start <= self._good_to:
            self._good_from = self._good_to = start
        end = min(end, self._old_bytes)
        while self._good_to < end:
            size = good_batch_bytes(file.view(self._good_to, end))
            if size is None:
                return self._good_to
            self._good_to += size
        return None


def good_batch_bytes(data: memoryview) -> int | None:
    """The size of the first batch, if it is a good one."""
    try:
        batch = RecordBatch.parse(data)
    except CorruptBatch:
        return None
    return batch.size_bytes if batch.is_crc_valid() else None
