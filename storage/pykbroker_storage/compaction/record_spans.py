"""Walks over the records of a batch without building them: where each lies, its key and time.

A record, all integers but the attributes being zig-zag varints:

    length | attributes i8 | timestamp delta | offset delta | key length | key | value length | ...
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from pykbroker_protocol.records.corrupt import CorruptBatch
from pykbroker_protocol.records.varint import read_varint, read_varlong, write_varint

RECORDS_PER_BREATH = 64


class RecordSpan(NamedTuple):
    start: int  # of its length
    end: int
    timestamp_delta: int
    after_timestamp: int  # where its offset delta stands
    offset_delta: int
    key: bytes | None
    is_tombstone: bool


def record_spans(payload: bytes, count: int, breathe: Callable[[], None]) -> Iterator[RecordSpan]:
    """The records of an uncompressed payload, in order; `breathe` is called now and then."""
    end = 0
    for number in range(count):
        if not number % RECORDS_PER_BREATH:
            breathe()
        start = end
        size, position = read_varint(payload, start)
        end = position + size
        if size <= 0 or end > len(payload):
            raise CorruptBatch(f"a record at {start} claims {size} bytes")
        timestamp_delta, after_timestamp = read_varlong(payload, position + 1)
        offset_delta, position = read_varint(payload, after_timestamp)
        key_size, position = read_varint(payload, position)
        key = None
        if key_size >= 0:
            key = payload[position : position + key_size]
            position += key_size
        value_size, position = read_varint(payload, position)
        if position > end:
            raise CorruptBatch(f"a record at {start} reaches into the next one")
        yield RecordSpan(
            start, end, timestamp_delta, after_timestamp, offset_delta, key, value_size < 0
        )
    if end != len(payload):
        raise CorruptBatch(f"{len(payload) - end} bytes follow the last record")


def shifted(payload: bytes, span: RecordSpan, earlier_by_ms: int) -> bytes:
    """The record's bytes for a batch whose base timestamp is later by so much."""
    body = bytearray(b"\0")  # attributes: none is defined
    write_varint(body, span.timestamp_delta - earlier_by_ms)
    body += payload[span.after_timestamp : span.end]
    record = bytearray()
    write_varint(record, len(body))
    return bytes(record + body)
