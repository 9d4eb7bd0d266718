"""Unsigned varints of one to five bytes: lengths, counts and tags in flexible versions."""

from __future__ import annotations

Buffer = bytes | bytearray | memoryview

UVARINT_BYTES_MAX = 5
TAGS_MAX = 10_000
"""Tagged fields per struct; a tag of two bytes is the cheapest way to cost a reader CPU time."""


class MalformedVarint(IndexError):
    """A varint is longer than five bytes; an IndexError, because truncated ones raise that."""


def read_uvarint(buffer: Buffer, position: int) -> tuple[int, int]:
    """Returns the number at a position and the position after it."""
    value = shift = 0
    for _ in range(UVARINT_BYTES_MAX):
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    raise MalformedVarint("unsigned varint is longer than five bytes")


def uvarint(value: int) -> bytes:
    if value < 0x80:
        return _SINGLE[value]
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


_SINGLE = [bytes((value,)) for value in range(0x80)]
