"""Zigzag varints, the encoding of integers in records."""

from pykbroker_protocol.records.buffers import Bytes
from pykbroker_protocol.records.corrupt import CorruptBatch

VARINT_BYTES_MAX = 5
VARLONG_BYTES_MAX = 10


INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1


def int64(number: int) -> int:
    """Wraps the number to a signed 64-bit integer, like addition in Java."""
    if INT64_MIN <= number <= INT64_MAX:
        return number
    return (number - INT64_MIN) % 2**64 + INT64_MIN


def read_varint(data: Bytes, position: int) -> tuple[int, int]:
    """Returns a 32-bit integer and the position after it."""
    return _read(data, position, VARINT_BYTES_MAX, 32)


def read_varlong(data: Bytes, position: int) -> tuple[int, int]:
    """Returns a 64-bit integer and the position after it."""
    return _read(data, position, VARLONG_BYTES_MAX, 64)


def write_varint(output: bytearray, value: int) -> None:
    """Appends an integer of up to 64 bits; the encoding does not depend on the width."""
    zigzag = value << 1 if value >= 0 else (-value << 1) - 1
    while zigzag > 0x7F:
        output.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    output.append(zigzag)


def _read(data: Bytes, position: int, bytes_max: int, bits: int) -> tuple[int, int]:
    try:
        byte = data[position]
        if byte < 0x80:  # the usual case
            return (byte >> 1) ^ -(byte & 1), position + 1
        zigzag = byte & 0x7F
        for index in range(1, bytes_max):
            byte = data[position + index]
            zigzag |= (byte & 0x7F) << (7 * index)
            if byte < 0x80:
                if zigzag >> bits:
                    break
                return (zigzag >> 1) ^ -(zigzag & 1), position + index + 1
    except IndexError:
        raise CorruptBatch(f"varint at byte {position} is truncated") from None
    raise CorruptBatch(f"varint at byte {position} is longer than {bits} bits")
