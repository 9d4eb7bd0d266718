import contextlib
import zlib
from random import Random

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykbroker_protocol.records.compression import Compression, compress, decompress
from pykbroker_protocol.records.corrupt import CorruptBatch

PACKING = [codec for codec in Compression if codec is not Compression.NONE]
SHRINKING = b"a truck reports its position; " * 20_000


@given(st.sampled_from(Compression), st.binary(max_size=5000), st.integers(1, 40))
def test_compressed_data_is_decompressed_to_the_same_bytes(
    codec: Compression, data: bytes, times: int
) -> None:
    data *= times
    assert decompress(codec, compress(codec, data)) == data


@pytest.mark.parametrize("codec", PACKING)
def test_repetitive_data_is_compressed(codec: Compression) -> None:
    packed = compress(codec, SHRINKING)
    assert len(packed) < len(SHRINKING) // 10
    assert decompress(codec, memoryview(packed)) == SHRINKING


@pytest.mark.parametrize("codec", PACKING)
def test_a_decompression_bomb_is_rejected(codec: Compression) -> None:
    bomb = compress(codec, bytes(8 * 1024 * 1024))
    assert len(decompress(codec, bomb, bytes_max=8 * 1024 * 1024)) == 8 * 1024 * 1024
    with pytest.raises(CorruptBatch, match="decompress"):
        decompress(codec, bomb, bytes_max=8 * 1024 * 1024 - 1)


@pytest.mark.parametrize("codec", PACKING)
def test_a_truncated_stream_is_corrupt(codec: Compression) -> None:
    packed = compress(codec, SHRINKING)
    with pytest.raises(CorruptBatch):
        decompress(codec, packed[: len(packed) // 2])


@given(st.sampled_from(PACKING), st.binary(max_size=300))
def test_random_bytes_are_corrupt_or_decompressed(codec: Compression, noise: bytes) -> None:
    for data in (noise, b"\x82SNAPPY\0" + noise, b"\x04\x22\x4d\x18" + noise):
        with contextlib.suppress(CorruptBatch):
            assert len(decompress(codec, data, bytes_max=100_000)) <= 100_000


@given(st.sampled_from(PACKING), st.integers(0, 10_000), st.integers(0, 7))
def test_a_flipped_bit_is_corrupt_or_decompressed(codec: Compression, at: int, bit: int) -> None:
    packed = bytearray(compress(codec, SHRINKING))
    packed[at % len(packed)] ^= 1 << bit
    with contextlib.suppress(CorruptBatch):
        assert len(decompress(codec, packed, bytes_max=1_000_000)) <= 1_000_000


def test_snappy_is_written_in_xerial_framing() -> None:
    packed = compress(Compression.SNAPPY, b"position")
    assert packed.startswith(b"\x82SNAPPY\0\0\0\0\1\0\0\0\1")


def test_a_raw_snappy_block_is_decompressed() -> None:
    raw = bytes(cramjam.snappy.compress_raw(SHRINKING))
    assert decompress(Compression.SNAPPY, raw) == SHRINKING


def test_an_implausible_snappy_size_is_rejected_without_allocation() -> None:
    with pytest.raises(CorruptBatch, match="cannot decompress to"):
        decompress(Compression.SNAPPY, b"\xff\xff\xff\x1f" + bytes(20))


@pytest.mark.parametrize("length", ["ffffffff", "7fffffff", "00"])
def test_an_invalid_snappy_block_length_is_corrupt(length: str) -> None:
    header = b"\x82SNAPPY\0\0\0\0\1\0\0\0\1"
    with pytest.raises(CorruptBatch):
        decompress(Compression.SNAPPY, header + bytes.fromhex(length))


def test_lz4_blocks_are_independent() -> None:
    magic, flags = compress(Compression.LZ4, SHRINKING)[:4], compress(Compression.LZ4, b"x")[4]
    assert magic == b"\x04\x22\x4d\x18"
    assert flags & 0x20


def test_lz4_frames_have_no_block_checksums() -> None:
    flags = compress(Compression.LZ4, SHRINKING)[4]
    assert not flags & 0x10


@pytest.mark.parametrize("size", [0, 1, 65_535, 65_536, 65_537, 200_000])
def test_lz4_stores_incompressible_blocks(size: int) -> None:
    data = Random(size).randbytes(size)
    packed = compress(Compression.LZ4, data)
    assert decompress(Compression.LZ4, packed) == data
    assert len(packed) <= size + 11 + 4 * -(-size // 65_536)


def test_gzip_streams_of_several_members_are_decompressed() -> None:
    members = zlib.compress(b"truck ", wbits=31) + zlib.compress(b"7", wbits=31)
    assert decompress(Compression.GZIP, members) == b"truck 7"
