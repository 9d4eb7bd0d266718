"""Walks over the records of a batch without building them: where each lies, its key.

A record, all integers but the attributes being zig-zag varints:

    length | attributes i8 | timestamp delta | offset delta | key length | key | value length | ...
"""

from collections.abc import Iterator
from typing import TypeAlias

from pykbroker_protocol.records.corrupt import CorruptBatch
from pykbroker_protocol.records.varint import int64, read_varint, read_varlong, write_varint

# Where a record starts and ends, and its timestamp delta stands; its offset delta; its key;
# whether it has no value. A plain tuple: there is one for every record of the log.
RecordSpan: TypeAlias = tuple[int, int, int, int, bytes | None, bool]

_MINUS_ONE = 1  # as a zig-zag varint
# A varint of one byte or two: its first byte is less than the former, its second than the latter.
_ONE_BYTE, _TWO_BYTES = 0x80, 0x80


def record_spans(  # noqa: C901, PLR0912 (one loop over all records of a log: calls cost most)
    payload: bytes, count: int
) -> Iterator[RecordSpan]:
    """The records of an uncompressed payload, in order.

    Nearly all integers in them have one byte or two; calling a function for those would be most
    of the work.
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
                raise CorruptBatch(f"the record at {start} is not as long as it says")
            yield start, end, timestamp_at, offset_delta, key, payload[position] == _MINUS_ONE
    except IndexError:
        raise CorruptBatch(f"the record at {end} runs past the end") from None
    if end != size:
        raise CorruptBatch(f"{size - end} bytes follow the last record")


def timestamp_delta(payload: bytes, span: RecordSpan) -> int:
    return read_varlong(payload, span[2])[0]


def shifted(payload: bytes, span: RecordSpan, earlier_by_ms: int) -> bytes:
    """The record's bytes for a batch whose base timestamp is later by so much."""
    _, end, timestamp_at, *_ = span
    delta, after_timestamp = read_varlong(payload, timestamp_at)
    body = bytearray(b"\0")  # attributes: none is defined
    write_varint(body, int64(delta - earlier_by_ms))
    body += payload[after_timestamp:end]
    record = bytearray()
    write_varint(record, len(body))
    return bytes(record + body)
