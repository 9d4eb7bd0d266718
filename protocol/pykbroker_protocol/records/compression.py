"""The five ways in which the records of one batch are packed together.

Unpacking is bounded: a batch of a few bytes that would inflate to gigabytes is corrupt.
"""

import zlib
from enum import IntEnum
from typing import assert_never

from pykbroker_protocol.records.buffers import Bytes
from pykbroker_protocol.records.corrupt import CorruptBatch, inflates_too_far

# A batch never inflates to more than one request could have carried of it uncompressed:
# the default of socket.request.max.bytes.
DECOMPRESSED_BYTES_MAX = 100 * 1024 * 1024


class Compression(IntEnum):
    """The codec in the low three bits of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


def compress(compression: Compression, data: Bytes) -> bytes:
    """The bytes as any stock client reads them."""
    if compression is Compression.NONE:
        return bytes(data)
    if compression is Compression.GZIP:
        return zlib.compress(data, wbits=_GZIP_WINDOW_BITS)
    # Its library has several megabytes; a start has no need of it.
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
    """The bytes as they were before; raises `CorruptBatch` beyond `bytes_max`."""
    return bytes(unpack(compression, data, bytes_max))


def unpack(compression: Compression, data: Bytes, bytes_max: int = DECOMPRESSED_BYTES_MAX) -> Bytes:
    """As `decompress`, in the buffer that the codec has filled."""
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


# gzip: the standard library stops at a size by itself.

_GZIP_WINDOW_BITS = 31  # the widest window, with gzip's header and trailer


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
            raise inflates_too_far(bytes_max)
        if not inflater.eof:
            raise CorruptBatch("gzip: the stream ends early")
        members.append(member)
        data = inflater.unused_data
    return b"".join(members)
