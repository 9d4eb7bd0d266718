"""Reads the batches of a file one by one through a buffer instead of a memory map.

Threads and processes other than the log's owner use it: it shares nothing with the owner. If the
file is truncated meanwhile, it raises an error; a map would end the process (SIGBUS).
"""

from collections.abc import Iterator
from struct import Struct

from pykbroker_protocol.records.batch import HEADER_BYTES, LENGTH_AT, PREFIX_BYTES, RecordBatch
from pykbroker_protocol.records.corrupt import CorruptBatch
from pykbroker_storage.filesystem import FileSystem, read_exactly

BUFFER_BYTES = 1024 * 1024

_LENGTH = Struct(">i")


def read_batches(filesystem: FileSystem, path: str, size_bytes: int) -> Iterator[RecordBatch]:
    """Yields every batch of the first `size_bytes`; raises `CorruptBatch` or `OSError`."""
    descriptor = filesystem.open_existing(path)
    try:
        position = 0
        count_max = BUFFER_BYTES
        while position < size_bytes:
            count = min(count_max, size_bytes - position)
            data = read_exactly(filesystem, descriptor, count, position)
            used = 0
            while (size := _batch_size(data, used)) and used + size <= len(data):
                yield RecordBatch.parse(data, used)
                used += size
            if not used and count == size_bytes - position:
                raise CorruptBatch(f"{path}: file ends within the batch at position {position}")
            # A batch larger than the buffer is read alone.
            count_max = BUFFER_BYTES if used else max(size, 2 * HEADER_BYTES)
            position += used
    finally:
        filesystem.close(descriptor)


def _batch_size(data: bytes, position: int) -> int:
    """Returns the size of the batch at a position; 0 if its header is incomplete."""
    if position + HEADER_BYTES > len(data):
        return 0
    size: int = _LENGTH.unpack_from(data, position + LENGTH_AT)[0] + PREFIX_BYTES
    if size < HEADER_BYTES:
        raise CorruptBatch(f"batch size {size} is smaller than a batch header")
    return size
