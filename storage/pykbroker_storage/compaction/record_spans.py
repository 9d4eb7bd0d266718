"""Walks over the records of a batch without building them: where each lies, its key.

A record, all integers but the attributes being zig-zag varints:

    length | attributes i8 | timestamp delta | offset delta | key length | key | value length | ...
"""

from collections.abc import Callable, Iterator
from typing import TypeAlias

from pykbroker_protocol.records.corrupt import CorruptBatch
from pykbroker_protocol.records.varint import read_varint, read_varlong, write_varint

# Where a record starts and ends, and its timestamp delta stands; its offset delta; its key;
# whether it has no value. A plain tuple: there is one for every record of the log.
RecordSpan: TypeAlias = tuple[int, int, int, int, bytes | None, bool]

RECORDS_PER_BREATH = 64
_MINUS_ONE = 1  # as a zig-zag varint


def record_spans(payload: bytes, count: int, breathe: Callable[[], None]) -> Iterator[RecordSpan]:
    """The records of an uncompressed payload, in order; `breathe` is called now and then."""
    end = 0
    try:
        for number in range(count):
            if not number % RECORDS_PER_BREATH:
                breathe()
            span = _read_span(payload, end)
            end = span[1]
            yield span
    except IndexError:
        raise CorruptBatch(f"the record at {end} runs past the end") from None
    if end != len(payload):
        raise CorruptBatch(f"{len(payload) - end} bytes follow the last record")


def _read_span(payload: bytes, start: int) -> RecordSpan:
    """Nearly all integers here have one byte, so that case is not left to a function."""
    byte = payload[start]
    if byte < 0x80:
        size, position = byte >> 1, start + 1
    else:
        size, position = read_varint(payload, start)
    end = position + size
    position = timestamp_at = position + 1
    while payload[position] > 0x7F:
        position += 1
    position += 1
    byte = payload[position]
    if byte < 0x80:
        offset_delta, position = byte >> 1, position + 1
    else:
        offset_delta, position = read_varint(payload, position)
    byte = payload[position]
    if byte < 0x80:
        key_size, position = (byte >> 1) ^ -(byte & 1), position + 1
    else:
        key_size, position = read_varint(payload, position)
    key = None
    if key_size >= 0:
        key = payload[position : position + key_size]
        position += key_size
    if not start < position < end <= len(payload) or offset_delta < 0:
        raise CorruptBatch(f"the record at {start} is not as long as it says")
    return start, end, timestamp_at, offset_delta, key, payload[position] == _MINUS_ONE


def timestamp_delta(payload: bytes, span: RecordSpan) -> int:
    return read_varlong(payload, span[2])[0]


def shifted(payload: bytes, span: RecordSpan, earlier_by_ms: int) -> bytes:
    """The record's bytes for a batch whose base timestamp is later by so much."""
    _, end, timestamp_at, *_ = span
    delta, after_timestamp = read_varlong(payload, timestamp_at)
    body = bytearray(b"\0")  # attributes: none is defined
    write_varint(body, delta - earlier_by_ms)
    body += payload[after_timestamp:end]
    record = bytearray()
    write_varint(record, len(body))
    return bytes(record + body)
