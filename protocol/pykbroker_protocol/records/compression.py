"""The five ways in which the records of one batch are packed together.

Unpacking is bounded: a batch of a few bytes that would inflate to gigabytes is corrupt.
"""

import zlib
from collections.abc import Callable
from enum import IntEnum
from struct import Struct
from typing import assert_never

import cramjam

from pykbroker_protocol.records.buffers import Bytes
from pykbroker_protocol.records.corrupt import CorruptBatch

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
    match compression:
        case Compression.NONE:
            return bytes(data)
        case Compression.GZIP:
            return zlib.compress(data, wbits=_GZIP_WINDOW_BITS)
        case Compression.SNAPPY:
            return _compress_snappy(memoryview(data))
        case Compression.LZ4:
            return _compress_lz4(data)
        case Compression.ZSTD:
            return bytes(cramjam.zstd.compress(data))
        case _:
            assert_never(compression)


def decompress(
    compression: Compression, data: Bytes, bytes_max: int = DECOMPRESSED_BYTES_MAX
) -> bytes:
    """The bytes as they were before; raises `CorruptBatch` beyond `bytes_max`."""
    match compression:
        case Compression.NONE:
            return bytes(data)
        case Compression.GZIP:
            return _decompress_gzip(bytes(data), bytes_max)
        case Compression.SNAPPY:
            return _decompress_snappy(bytes(data), bytes_max)
        case Compression.LZ4:
            return _decompress_growing(cramjam.lz4.decompress_into, data, bytes_max)
        case Compression.ZSTD:
            return _decompress_growing(cramjam.zstd.decompress_into, data, bytes_max)
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
            raise _too_large(bytes_max)
        if not inflater.eof:
            raise CorruptBatch("gzip: the stream ends early")
        members.append(member)
        data = inflater.unused_data
    return b"".join(members)


# snappy: Java and kafka-python send a framed stream, librdkafka one raw block.

_XERIAL_MAGIC = b"\x82SNAPPY\0"
_XERIAL_HEADER = Struct(">8sii")
_XERIAL_VERSION = 1
_XERIAL_BLOCK_BYTES = 32 * 1024  # what Java packs into one block
_XERIAL_BLOCK_LENGTH = Struct(">i")


def _compress_snappy(data: memoryview) -> bytes:
    frames = [_XERIAL_HEADER.pack(_XERIAL_MAGIC, _XERIAL_VERSION, _XERIAL_VERSION)]
    for start in range(0, len(data), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + _XERIAL_BLOCK_BYTES]))
        frames += (_XERIAL_BLOCK_LENGTH.pack(len(block)), block)
    return b"".join(frames)


def _decompress_snappy(data: bytes, bytes_max: int) -> bytes:
    if not data.startswith(_XERIAL_MAGIC):
        return _decompress_snappy_block(data, bytes_max)
    blocks = []
    left = bytes_max
    position = _XERIAL_HEADER.size
    while position < len(data):
        start = position + _XERIAL_BLOCK_LENGTH.size
        if start > len(data):
            raise CorruptBatch("snappy: the stream ends within a block's length")
        (length,) = _XERIAL_BLOCK_LENGTH.unpack_from(data, position)
        position = start + length
        if length < 0 or position > len(data):
            raise CorruptBatch(f"snappy: a block of {length} bytes")
        block = _decompress_snappy_block(data[start:position], left)
        left -= len(block)
        blocks.append(block)
    return b"".join(blocks)


# Three bytes say at most "copy 64 bytes": what claims a higher ratio lies.
_SNAPPY_RATIO_MAX = 32


def _decompress_snappy_block(block: bytes, bytes_max: int) -> bytes:
    try:
        size = cramjam.snappy.decompress_raw_len(block)
        if size > bytes_max:
            raise _too_large(bytes_max)
        if size > len(block) * _SNAPPY_RATIO_MAX:
            raise CorruptBatch(f"snappy: {len(block)} bytes cannot hold {size}")
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise CorruptBatch(f"snappy: {error}") from None


# lz4: Java refuses a frame whose blocks refer to earlier ones.


def _compress_lz4(data: Bytes) -> bytes:
    compressor = cramjam.lz4.Compressor(content_checksum=False, block_linked=False)
    compressor.compress(bytes(data))  # it takes nothing else
    return bytes(compressor.finish())


# lz4 and zstd do not reliably say how large they will be: the room grows until they fit.

_FIRST_GUESS_BYTES = 64 * 1024
_FIRST_GUESS_RATIO = 8
_GUESS_GROWTH = 4
_NO_ROOM_LEFT = "failed to write whole buffer"


def _decompress_growing(
    decompress_into: Callable[[Bytes, bytearray], int], data: Bytes, bytes_max: int
) -> bytes:
    size = max(_FIRST_GUESS_BYTES, len(data) * _FIRST_GUESS_RATIO)
    while True:
        room = bytearray(min(size, bytes_max))
        try:
            written = decompress_into(data, room)
        except cramjam.DecompressionError as error:
            if _NO_ROOM_LEFT not in str(error):
                raise CorruptBatch(str(error)) from None
            if size >= bytes_max:
                raise _too_large(bytes_max) from None
            size *= _GUESS_GROWTH
        else:
            return memoryview(room)[:written].tobytes()


def _too_large(bytes_max: int) -> CorruptBatch:
    return CorruptBatch(f"the records inflate to more than {bytes_max} bytes")
