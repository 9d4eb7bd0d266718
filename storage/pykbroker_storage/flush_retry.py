"""Rewrites files in place after a failed fsync, so that the next fsync covers their bytes.

After a failed fsync, Linux marks the pages clean although the disk does not have them. The next
fsync of the file then succeeds without these pages. A page that is written again is dirty again.
"""

import os

from pykbroker_protocol.records.batch import HEADER_BYTES, PREFIX_BYTES, RecordBatch
from pykbroker_protocol.records.corrupt import CorruptBatch
from pykbroker_storage.filesystem import FileSystem, FlushFailed, read_exactly, write_fully


def rewrite_batches(filesystem: FileSystem, path: str, size_bytes: int, from_offset: int) -> None:
    """Rewrites the batches of a log file from an offset on.

    Raises FlushFailed if a batch no longer matches its checksum: the system dropped its pages.
    """
    descriptor = filesystem.open_existing(path)
    try:
        position = 0
        while position < size_bytes:
            header = read_exactly(filesystem, descriptor, HEADER_BYTES, position)
            length = int.from_bytes(header[8:PREFIX_BYTES], "big") + PREFIX_BYTES
            end = position + length
            if length < HEADER_BYTES or end > size_bytes:
                raise FlushFailed(_lost(path, position))
            if _next_offset(header) > from_offset:
                data = read_exactly(filesystem, descriptor, length, position)
                if not _is_good(data):
                    raise FlushFailed(_lost(path, position))
                write_fully(filesystem, descriptor, data, position)
            position = end
    finally:
        filesystem.close(descriptor)


def rewrite_file(filesystem: FileSystem, path: str) -> None:
    """Rewrites a small file, such as an index."""
    descriptor = filesystem.open_existing(path)
    try:
        data = read_exactly(filesystem, descriptor, os.fstat(descriptor).st_size, 0)
        write_fully(filesystem, descriptor, data, 0)
    finally:
        filesystem.close(descriptor)


def _next_offset(header: bytes) -> int:
    base_offset = int.from_bytes(header[:8], "big")
    return base_offset + int.from_bytes(header[23:27], "big") + 1


def _is_good(data: bytes) -> bool:
    try:
        return RecordBatch.parse(data).is_crc_valid()
    except CorruptBatch:
        return False


def _lost(path: str, position: int) -> str:
    return f"{path}: the batch at position {position} was lost by a failed flush"
