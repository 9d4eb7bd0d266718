"""Reads the batches of a file one by one, with a buffer of its own instead of a memory map.

For work beside the log's owner: it shares nothing with it, and a file that is cut meanwhile
raises an error where a map would kill the process.
"""

from collections.abc import Iterator
from struct import Struct

from pykbroker_protocol.records.batch import HEADER_BYTES, LENGTH_AT, PREFIX_BYTES, RecordBatch
from pykbroker_protocol.records.corrupt import CorruptBatch
from pykbroker_storage.filesystem import FileSystem, read_exactly

BUFFER_BYTES = 1024 * 1024

_LENGTH = Struct(">i")


def read_batches(filesystem: FileSystem, path: str, size_bytes: int) -> Iterator[RecordBatch]:
    """Every batch of the first `size_bytes`; raises `CorruptBatch`, or `OSError`."""
    descriptor = filesystem.open_existing(path)
    try:
        position = 0
        wanted = BUFFER_BYTES
        while position < size_bytes:
            count = min(wanted, size_bytes - position)
            data = read_exactly(filesystem, descriptor, count, position)
            used = 0
            while (size := _batch_size(data, used)) and used + size <= len(data):
                yield RecordBatch.parse(data, used)
                used += size
            if not used and count == size_bytes - position:
                raise CorruptBatch(f"{path}: the file ends within a batch at {position}")
            # A batch larger than the buffer is read alone.
            wanted = BUFFER_BYTES if used else max(size, 2 * HEADER_BYTES)
            position += used
    finally:
        filesystem.close(descriptor)


def _batch_size(data: bytes, position: int) -> int:
    """Of the batch that starts there; 0 if not even its header is there."""
    if position + HEADER_BYTES > len(data):
        return 0
    size: int = _LENGTH.unpack_from(data, position + LENGTH_AT)[0] + PREFIX_BYTES
    if size < HEADER_BYTES:
        raise CorruptBatch(f"a batch of {size} bytes")
    return size
