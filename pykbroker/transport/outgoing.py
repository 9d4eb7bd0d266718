"""Turns answer buffers into few pieces: small ones are joined, large ones pass uncopied."""

from collections.abc import Iterable, Iterator
from typing import Final

from pykbroker.apis.answers import Buffer

COPY_BYTES_MAX: Final = 8 * 1024
"""Up to here copying is cheaper than one more piece in the system call."""

JOIN_BYTES_MAX: Final = 64 * 1024
"""Small buffers are joined up to this much, which bounds what is copied at a time."""


def pieces(buffers: Iterable[Buffer]) -> Iterator[Buffer]:
    """The same bytes in the same order."""
    small: list[Buffer] = []
    small_bytes = 0
    for buffer in buffers:
        size = len(buffer)
        if size > COPY_BYTES_MAX or small_bytes + size > JOIN_BYTES_MAX:
            if small:
                yield b"".join(small)
                small, small_bytes = [], 0
            if size > COPY_BYTES_MAX:
                yield buffer
                continue
        small.append(buffer)
        small_bytes += size
    if small:
        yield b"".join(small)
