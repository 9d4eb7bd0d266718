"""Coalescing keeps all bytes and copies only small buffers."""

from hypothesis import given
from hypothesis import strategies as st

from pykbroker.framing.coalescing import COPY_BYTES_MAX, JOIN_BYTES_MAX, coalesce

sizes = st.one_of(st.integers(0, 64), st.integers(COPY_BYTES_MAX - 1, COPY_BYTES_MAX + 2))


@given(st.lists(sizes, max_size=40))
def test_coalescing_keeps_all_bytes(lengths: list[int]) -> None:
    buffers = [bytes([n % 256]) * length for n, length in enumerate(lengths)]
    joined = list(coalesce(buffers))
    assert b"".join(joined) == b"".join(buffers)
    assert all(len(piece) <= JOIN_BYTES_MAX for piece in joined)


def test_large_buffers_are_not_copied() -> None:
    large = memoryview(bytes(COPY_BYTES_MAX + 1))
    first, second, third = coalesce([b"a", b"b", large, b"c"])
    assert (first, third) == (b"ab", b"c")
    assert second is large
