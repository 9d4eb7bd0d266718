"""Snappy, lz4 and zstd in the formats of Kafka clients, implemented with cramjam."""

from collections.abc import Callable
from struct import Struct

import cramjam

from pykbroker_protocol.records.buffers import Bytes
from pykbroker_protocol.records.corrupt import CorruptBatch, decompressed_too_large

# snappy: Java and kafka-python send a framed stream (xerial), librdkafka one raw block.

_XERIAL_MAGIC = b"\x82SNAPPY\0"
_XERIAL_HEADER = Struct(">8sii")
_XERIAL_VERSION = 1
_XERIAL_BLOCK_BYTES = 32 * 1024  # the block size of the Java client
_XERIAL_BLOCK_LENGTH = Struct(">i")


def compress_snappy(data: memoryview) -> bytes:
    frames = [_XERIAL_HEADER.pack(_XERIAL_MAGIC, _XERIAL_VERSION, _XERIAL_VERSION)]
    for start in range(0, len(data), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + _XERIAL_BLOCK_BYTES]))
        frames += (_XERIAL_BLOCK_LENGTH.pack(len(block)), block)
    return b"".join(frames)


def decompress_snappy(data: bytes, bytes_max: int) -> bytes:
    if not data.startswith(_XERIAL_MAGIC):
        return _decompress_snappy_block(data, bytes_max)
    blocks = []
    left = bytes_max
    position = _XERIAL_HEADER.size
    while position < len(data):
        start = position + _XERIAL_BLOCK_LENGTH.size
        if start > len(data):
            raise CorruptBatch("snappy: the stream ends within the length of a block")
        (length,) = _XERIAL_BLOCK_LENGTH.unpack_from(data, position)
        position = start + length
        if length < 0 or position > len(data):
            raise CorruptBatch(f"snappy: block length {length} exceeds the stream")
        block = _decompress_snappy_block(data[start:position], left)
        left -= len(block)
        blocks.append(block)
    return b"".join(blocks)


# A copy element of three bytes produces at most 64 bytes, so no valid block has a higher ratio.
_SNAPPY_RATIO_MAX = 32


def _decompress_snappy_block(block: bytes, bytes_max: int) -> bytes:
    try:
        size = cramjam.snappy.decompress_raw_len(block)
        if size > bytes_max:
            raise decompressed_too_large(bytes_max)
        if size > len(block) * _SNAPPY_RATIO_MAX:
            raise CorruptBatch(f"snappy: {len(block)} bytes cannot decompress to {size}")
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise CorruptBatch(f"snappy: {error}") from None


# lz4: a frame like that of the Java client. The Java client rejects blocks that refer to earlier
# blocks, and a common Go library rejects block checksums.

_LZ4_HEADER = b"\x04\x22\x4d\x18\x60\x40\x82"  # independent blocks of 64 KiB, no checksums
_LZ4_BLOCK_BYTES = 64 * 1024
_LZ4_BLOCK_LENGTH = Struct("<I")
_LZ4_STORED = 1 << 31  # flag in the block length: the block is not compressed
_LZ4_END = bytes(_LZ4_BLOCK_LENGTH.size)


def compress_lz4(data: Bytes) -> bytes:
    frames = [_LZ4_HEADER]
    for start in range(0, len(data), _LZ4_BLOCK_BYTES):
        plain = data[start : start + _LZ4_BLOCK_BYTES]
        block = bytes(cramjam.lz4.compress_block(plain, store_size=False))
        if len(block) < len(plain):
            frames += (_LZ4_BLOCK_LENGTH.pack(len(block)), block)
        else:
            frames += (_LZ4_BLOCK_LENGTH.pack(len(plain) | _LZ4_STORED), bytes(plain))
    frames.append(_LZ4_END)
    return b"".join(frames)


def decompress_lz4(data: Bytes, bytes_max: int) -> memoryview:
    return _decompress_growing(cramjam.lz4.decompress_into, data, bytes_max)


# zstd


def compress_zstd(data: Bytes) -> bytes:
    return bytes(cramjam.zstd.compress(data))


def decompress_zstd(data: Bytes, bytes_max: int) -> memoryview:
    return _decompress_growing(cramjam.zstd.decompress_into, data, bytes_max)


# lz4 and zstd frames may lack the uncompressed size: the output buffer grows until the data fits.

_FIRST_GUESS_BYTES = 64 * 1024
_FIRST_GUESS_RATIO = 8
_GUESS_GROWTH = 4
_BUFFER_TOO_SMALL = "failed to write whole buffer"


def _decompress_growing(
    decompress_into: Callable[[Bytes, bytearray], int], data: Bytes, bytes_max: int
) -> memoryview:
    size = max(_FIRST_GUESS_BYTES, len(data) * _FIRST_GUESS_RATIO)
    while True:
        output = bytearray(min(size, bytes_max))
        try:
            written = decompress_into(data, output)
        except cramjam.DecompressionError as error:
            if _BUFFER_TOO_SMALL not in str(error):
                raise CorruptBatch(str(error)) from None
            if size >= bytes_max:
                raise decompressed_too_large(bytes_max) from None
            size *= _GUESS_GROWTH
            del output  # free it before the next, larger one is allocated
        else:
            return memoryview(output)[:written]
