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
def test_what_was_packed_comes_back(codec: Compression, data: bytes, times: int) -> None:
    data *= times
    assert decompress(codec, compress(codec, data)) == data


@pytest.mark.parametrize("codec", PACKING)
def test_packing_shrinks_what_repeats_itself(codec: Compression) -> None:
    packed = compress(codec, SHRINKING)
    assert len(packed) < len(SHRINKING) // 10
    assert decompress(codec, memoryview(packed)) == SHRINKING


@pytest.mark.parametrize("codec", PACKING)
def test_a_bomb_is_refused_at_the_bound(codec: Compression) -> None:
    bomb = compress(codec, bytes(8 * 1024 * 1024))
    assert len(decompress(codec, bomb, bytes_max=8 * 1024 * 1024)) == 8 * 1024 * 1024
    with pytest.raises(CorruptBatch, match="decompress"):
        decompress(codec, bomb, bytes_max=8 * 1024 * 1024 - 1)


@pytest.mark.parametrize("codec", PACKING)
def test_a_cut_stream_is_corrupt(codec: Compression) -> None:
    packed = compress(codec, SHRINKING)
    with pytest.raises(CorruptBatch):
        decompress(codec, packed[: len(packed) // 2])


@given(st.sampled_from(PACKING), st.binary(max_size=300))
def test_noise_is_corrupt_or_harmless(codec: Compression, noise: bytes) -> None:
    for data in (noise, b"\x82SNAPPY\0" + noise, b"\x04\x22\x4d\x18" + noise):
        with contextlib.suppress(CorruptBatch):
            assert len(decompress(codec, data, bytes_max=100_000)) <= 100_000


@given(st.sampled_from(PACKING), st.integers(0, 10_000), st.integers(0, 7))
def test_a_flipped_bit_is_corrupt_or_harmless(codec: Compression, at: int, bit: int) -> None:
    packed = bytearray(compress(codec, SHRINKING))
    packed[at % len(packed)] ^= 1 << bit
    with contextlib.suppress(CorruptBatch):
        assert len(decompress(codec, packed, bytes_max=1_000_000)) <= 1_000_000


def test_snappy_is_written_in_java_s_framing() -> None:
    packed = compress(Compression.SNAPPY, b"position")
    assert packed.startswith(b"\x82SNAPPY\0\0\0\0\1\0\0\0\1")


def test_snappy_is_read_as_one_raw_block_too() -> None:
    raw = bytes(cramjam.snappy.compress_raw(SHRINKING))
    assert decompress(Compression.SNAPPY, raw) == SHRINKING


def test_snappy_that_lies_about_its_size_allocates_nothing() -> None:
    with pytest.raises(CorruptBatch, match="cannot decompress to"):
        decompress(Compression.SNAPPY, b"\xff\xff\xff\x1f" + bytes(20))


@pytest.mark.parametrize("length", ["ffffffff", "7fffffff", "00"])
def test_a_snappy_frame_of_impossible_length_is_corrupt(length: str) -> None:
    header = b"\x82SNAPPY\0\0\0\0\1\0\0\0\1"
    with pytest.raises(CorruptBatch):
        decompress(Compression.SNAPPY, header + bytes.fromhex(length))


def test_lz4_blocks_do_not_refer_to_earlier_ones() -> None:
    magic, flags = compress(Compression.LZ4, SHRINKING)[:4], compress(Compression.LZ4, b"x")[4]
    assert magic == b"\x04\x22\x4d\x18"
    assert flags & 0x20


def test_lz4_frames_carry_no_checksums_of_blocks() -> None:
    flags = compress(Compression.LZ4, SHRINKING)[4]
    assert not flags & 0x10


@pytest.mark.parametrize("size", [0, 1, 65_535, 65_536, 65_537, 200_000])
def test_lz4_keeps_what_does_not_shrink_as_it_is(size: int) -> None:
    data = Random(size).randbytes(size)
    packed = compress(Compression.LZ4, data)
    assert decompress(Compression.LZ4, packed) == data
    assert len(packed) <= size + 11 + 4 * -(-size // 65_536)


def test_gzip_of_several_members_is_one_stream() -> None:
    members = zlib.compress(b"truck ", wbits=31) + zlib.compress(b"7", wbits=31)
    assert decompress(Compression.GZIP, members) == b"truck 7"
