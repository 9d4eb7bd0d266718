"""Finds the positions and keys of the records in a batch without decoding the records.

Layout of a record; all integers except the attributes are zig-zag varints:

    length | attributes i8 | timestamp delta | offset delta | key length | key | value length | ...
"""

from collections.abc import Iterator
from typing import TypeAlias

from pykbroker_protocol.records.corrupt import CorruptBatch
from pykbroker_protocol.records.varint import int64, read_varint, read_varlong, write_varint

# Start, end, position of the timestamp delta, offset delta, key, whether the value is null.
# A plain tuple, because one is created for every record of the log.
RecordSpan: TypeAlias = tuple[int, int, int, int, bytes | None, bool]

_MINUS_ONE = 1  # as a zig-zag varint
# A first byte below the former is a varint of one byte; a second byte below the latter ends it.
_ONE_BYTE, _TWO_BYTES = 0x80, 0x80


def record_spans(  # noqa: C901, PLR0912 (one loop over all records of a log: calls cost most)
    payload: bytes, count: int
) -> Iterator[RecordSpan]:
    """Yields the records of an uncompressed payload in order.

    Nearly all integers have one or two bytes. They are decoded inline, because function calls would
    dominate the cost.
    """
    end = 0
    size = len(payload)
    try:
        for _ in range(count):
            start = end
            byte = payload[start]
            if byte < _ONE_BYTE:
                end, position = start + 1 + (byte >> 1), start + 1
            elif (second := payload[start + 1]) < _TWO_BYTES:
                end, position = start + 2 + (second << 6 | (byte & 0x7F) >> 1), start + 2
            else:
                length, position = read_varint(payload, start)
                end = position + length
            position = timestamp_at = position + 1
            while payload[position] >= _ONE_BYTE:
                position += 1
            position += 1
            byte = payload[position]
            if byte < _ONE_BYTE:
                offset_delta, position = byte >> 1, position + 1
            elif (second := payload[position + 1]) < _TWO_BYTES:
                offset_delta, position = second << 6 | (byte & 0x7F) >> 1, position + 2
            else:
                offset_delta, position = read_varint(payload, position)
            byte = payload[position]
            if byte < _ONE_BYTE:
                key_size, position = (byte >> 1) ^ -(byte & 1), position + 1
            else:
                key_size, position = read_varint(payload, position)
            key = None
            if key_size >= 0:
                key = payload[position : position + key_size]
                position += key_size
            if not start < position < end <= size or offset_delta < 0:
                raise CorruptBatch(f"the record at byte {start} has a wrong length")
            yield start, end, timestamp_at, offset_delta, key, payload[position] == _MINUS_ONE
    except IndexError:
        raise CorruptBatch(f"the record at byte {end} exceeds the batch") from None
    if end != size:
        raise CorruptBatch(f"{size - end} extra bytes follow the last record")


def timestamp_delta(payload: bytes, span: RecordSpan) -> int:
    return read_varlong(payload, span[2])[0]


def shifted(payload: bytes, span: RecordSpan, earlier_by_ms: int) -> bytes:
    """Encodes the record for a base timestamp that is later by `earlier_by_ms`."""
    _, end, timestamp_at, *_ = span
    delta, after_timestamp = read_varlong(payload, timestamp_at)
    body = bytearray(b"\0")  # attributes; none is defined
    write_varint(body, int64(delta - earlier_by_ms))
    body += payload[after_timestamp:end]
    record = bytearray()
    write_varint(record, len(body))
    return bytes(record + body)
