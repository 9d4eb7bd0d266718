"""Frames are independent of how their bytes were split into reads; memory is bounded."""

import itertools
import struct
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykbroker.framing import frame_reader
from pykbroker.framing.frame_reader import FrameReader, Scratch

Arrival = tuple[list[bytes], str | None]


def read_in_chunks(data: bytes, cuts: list[int], *, scratch_bytes: int, bytes_max: int) -> Arrival:
    """Feeds the reader as an event loop does, at most a buffer at a time."""
    reader = FrameReader(Scratch(scratch_bytes), bytes_max)
    got: list[bytes] = []
    edges = [0, *sorted({cut for cut in cuts if cut < len(data)}), len(data)]
    for start, stop in itertools.pairwise(edges):
        rest = data[start:stop]
        while rest:
            room = reader.buffer()
            count = min(len(room), len(rest))
            assert count, "there is always room"
            room[:count] = rest[:count]
            rest = rest[count:]
            got += [bytes(frame) for frame in reader.received(count)]
    return got, reader.violation


def framed(*bodies: bytes) -> bytes:
    return b"".join(struct.pack(">i", len(body)) + body for body in bodies)


@given(
    bodies=st.lists(st.binary(max_size=200), max_size=12),
    cuts=st.lists(st.integers(0, 2600), max_size=30),
    scratch_bytes=st.integers(8, 300),
)
def test_frames_do_not_depend_on_the_split_of_reads(
    bodies: list[bytes], cuts: list[int], scratch_bytes: int
) -> None:
    got = read_in_chunks(framed(*bodies), cuts, scratch_bytes=scratch_bytes, bytes_max=200)
    assert got == (bodies, None)


@given(cuts=st.lists(st.integers(0, 60), max_size=20), bad=st.sampled_from([-1, 33, 2**31 - 1]))
def test_only_frames_before_a_violation_are_returned(cuts: list[int], bad: int) -> None:
    data = framed(b"good", b"") + struct.pack(">i", bad) + framed(b"never seen")
    got, violation = read_in_chunks(data, cuts, scratch_bytes=16, bytes_max=32)
    assert got == [b"good", b""]
    assert violation is not None
    assert str(bad) in violation


@pytest.mark.parametrize("size", [100 << 20, frame_reader.SPARE_BYTES_MAX, 100_000])
def test_an_announced_size_alone_allocates_little_memory(size: int) -> None:
    with traced_bytes() as taken:
        readers = [reader_with_announced_size(Scratch(), size) for _ in range(20)]
        assert taken() < len(readers) * (frame_reader.SCRATCH_BYTES + 2 * frame_reader.FIRST_BYTES)


def test_memory_of_completed_frames_is_kept_up_to_the_number_of_spares() -> None:
    scratch, size = Scratch(), frame_reader.SPARE_BYTES_MAX
    with traced_bytes() as taken:
        readers = []
        for _ in range(20):
            readers.append(reader_with_announced_size(scratch, size))
            assert read_whole(scratch, size) == [size]
        lent = frame_reader.SPARES_MAX * (frame_reader.SPARE_BYTES_MAX + frame_reader.PAGE_BYTES)
        assert taken() < lent + len(readers) * 2 * frame_reader.FIRST_BYTES


@given(sizes=st.lists(st.integers(1, 50_000), max_size=30))
def test_memory_of_a_frame_is_proportional_to_the_received_bytes(sizes: list[int]) -> None:
    reader = reader_with_announced_size(Scratch(), 100 << 20)
    received = 1
    for size in sizes:
        count = min(size, len(reader.buffer()))
        assert received + len(reader.buffer()) <= max(
            frame_reader.FIRST_BYTES, frame_reader.GROWTH * received
        )
        reader.received(count)
        received += count


@contextmanager
def traced_bytes() -> Iterator[Callable[[], int]]:
    """Yields a function that returns the bytes allocated since the start."""
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        yield lambda: tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()


def reader_with_announced_size(scratch: Scratch, size: int) -> FrameReader:
    """A reader that has received a size and one byte."""
    reader = FrameReader(scratch, 100 << 20)
    reader.buffer()[:5] = struct.pack(">ix", size)
    assert reader.received(5) == []
    return reader


def read_whole(scratch: Scratch, size: int) -> list[int]:
    """Receives a frame of this size; returns the sizes of the completed frames."""
    reader = reader_with_announced_size(scratch, size)
    missing, lengths = size - 1, []
    while missing:
        count = min(missing, len(reader.buffer()))
        lengths += [len(frame) for frame in reader.received(count)]
        missing -= count
    return lengths


def test_a_large_frame_grows_with_the_received_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frame_reader, "FIRST_BYTES", 16)
    body = bytes(range(256)) * 3
    got = read_in_chunks(framed(body), [4, 5, 100], scratch_bytes=8, bytes_max=1000)
    assert got == ([body], None)


def test_the_rest_of_an_incomplete_frame_is_received_into_it() -> None:
    reader = FrameReader(Scratch(64), 1 << 20)
    reader.buffer()[:14] = struct.pack(">i", 1000) + b"0123456789"
    assert reader.received(14) == []
    room = reader.buffer()
    assert len(room) == 990
    room[:] = bytes(990)
    (frame,) = reader.received(990)
    assert frame.obj is room.obj


def test_a_frame_is_writable_and_independent_of_later_reads() -> None:
    reader = FrameReader(Scratch(64), 64)
    reader.buffer()[:6] = framed(b"ab")
    (kept,) = reader.received(6)
    kept[0:1] = b"A"
    reader.buffer()[:6] = framed(b"xy")
    reader.received(6)
    assert bytes(kept) == b"Ab"


def test_memory_of_a_large_frame_is_reused_when_no_view_exists() -> None:
    scratch = Scratch()
    first = scratch.memory_for(100_000, 100_000)
    held = scratch.memory_for(100_000, 100_000)
    assert held.obj is not first.obj
    once = id(first.obj)
    first.release()
    again = scratch.memory_for(70_000, 0)
    assert id(again.obj) == once
    assert len(again) == 70_000
    part = held[10:20]
    held.release()
    assert scratch.memory_for(100_000, 100_000).obj is not part.obj


def test_the_number_of_spares_is_bounded() -> None:
    scratch = Scratch()
    held = [scratch.memory_for(100_000, 100_000) for _ in range(20)]
    assert len({id(view.obj) for view in held}) == 20
    assert len(scratch._spares) == frame_reader.SPARES_MAX
