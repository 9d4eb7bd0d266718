"""Compression of the records of a batch.

A batch that decompresses to more than `DECOMPRESSED_BYTES_MAX` is corrupt.
"""

import zlib
from enum import IntEnum
from typing import assert_never

from pykbroker_protocol.records.buffers import Bytes
from pykbroker_protocol.records.corrupt import CorruptBatch, decompressed_too_large

# The default of socket.request.max.bytes: the largest batch that one request can contain
# uncompressed.
DECOMPRESSED_BYTES_MAX = 100 * 1024 * 1024


class Compression(IntEnum):
    """The compression type, stored in the low three bits of the batch attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


def compress(compression: Compression, data: Bytes) -> bytes:
    """Compresses records in the format that Kafka clients read."""
    if compression is Compression.NONE:
        return bytes(data)
    if compression is Compression.GZIP:
        return zlib.compress(data, wbits=_GZIP_WINDOW_BITS)
    # Imported on use: the library has several megabytes, and a start does not need it.
    from pykbroker_protocol.records import codecs  # noqa: PLC0415

    match compression:
        case Compression.SNAPPY:
            return codecs.compress_snappy(memoryview(data))
        case Compression.LZ4:
            return codecs.compress_lz4(data)
        case Compression.ZSTD:
            return codecs.compress_zstd(data)
        case _:
            assert_never(compression)


def decompress(
    compression: Compression, data: Bytes, bytes_max: int = DECOMPRESSED_BYTES_MAX
) -> bytes:
    """Decompresses records; raises `CorruptBatch` if they exceed `bytes_max`."""
    return bytes(unpack(compression, data, bytes_max))


def unpack(compression: Compression, data: Bytes, bytes_max: int = DECOMPRESSED_BYTES_MAX) -> Bytes:
    """Like `decompress`, but returns the output buffer of the codec without a copy."""
    if compression is Compression.NONE:
        return data
    if compression is Compression.GZIP:
        return _decompress_gzip(bytes(data), bytes_max)
    from pykbroker_protocol.records import codecs  # noqa: PLC0415  # as above

    match compression:
        case Compression.SNAPPY:
            return codecs.decompress_snappy(bytes(data), bytes_max)
        case Compression.LZ4:
            return codecs.decompress_lz4(data, bytes_max)
        case Compression.ZSTD:
            return codecs.decompress_zstd(data, bytes_max)
        case _:
            assert_never(compression)


# gzip: the standard library stops decompressing at a given size.

_GZIP_WINDOW_BITS = 31  # the largest window, with gzip header and trailer


def _decompress_gzip(data: bytes, bytes_max: int) -> bytes:
    members = []
    left = bytes_max
    while data:
        inflater = zlib.decompressobj(wbits=_GZIP_WINDOW_BITS)
        try:
            member = inflater.decompress(data, left + 1)
        except zlib.error as error:
            raise CorruptBatch(f"gzip: {error}") from None
        left -= len(member)
        if left < 0:
            raise decompressed_too_large(bytes_max)
        if not inflater.eof:
            raise CorruptBatch("gzip: the stream ends early")
        members.append(member)
        data = inflater.unused_data
    return b"".join(members)
