"""Joins small buffers before they are sent; large buffers are passed on without a copy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pykbroker_protocol.compiler import Buffer

COPY_BYTES_MAX: Final = 8 * 1024
"""Up to this size a copy costs less than one more element in the system call."""

JOIN_BYTES_MAX: Final = 64 * 1024
"""Largest buffer that small buffers are joined into; bounds each copy."""


def coalesce(buffers: Iterable[Buffer]) -> Iterator[Buffer]:
    """Yields the same bytes in the same order, in fewer buffers."""
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
