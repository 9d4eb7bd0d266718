"""Reads offsets and timestamps of the records of a batch without keys, values and headers.

A compressed batch of a few kilobytes can contain millions of records. They are read in chunks.
`pause` is called after each chunk, so that a worker thread can release the CPU to other threads.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from pykbroker_protocol.records.batch import RecordBatch, TimestampType
from pykbroker_protocol.records.buffers import Bytes
from pykbroker_protocol.records.corrupt import CorruptBatch
from pykbroker_protocol.records.record import RECORD_BYTES_MIN
from pykbroker_protocol.records.varint import INT64_MAX, INT64_MIN, int64, read_varint, read_varlong

CHUNK_RECORDS = 1_000
"""Reading a chunk takes about half a millisecond."""

Pause: TypeAlias = Callable[[], None]


def no_pause() -> None:
    """The default of `pause`."""


def offset_and_timestamp_at_or_after(
    batch: RecordBatch, timestamp_ms: int, from_offset: int = 0, pause: Pause = no_pause
) -> tuple[int, int] | None:
    """Returns the first record at or after `from_offset` that is not older than `timestamp_ms`."""
    if batch.max_timestamp < timestamp_ms:
        return None
    for offsets, timestamps in offsets_and_timestamps(batch, pause):
        if max(timestamps) < timestamp_ms:
            continue
        for offset, timestamp in zip(offsets, timestamps, strict=True):
            if timestamp >= timestamp_ms and offset >= from_offset:
                return offset, timestamp
    return None


def max_timestamp_record(
    batch: RecordBatch, from_offset: int = 0, pause: Pause = no_pause
) -> tuple[int, int] | None:
    """Returns offset and timestamp of the first record with the greatest timestamp.

    Returns None if no record is at or after `from_offset`.
    """
    newest: tuple[int, int] | None = None
    for offsets, timestamps in offsets_and_timestamps(batch, pause):
        if newest is not None and max(timestamps) <= newest[1]:
            continue
        for offset, timestamp in zip(offsets, timestamps, strict=True):
            if offset >= from_offset and (newest is None or timestamp > newest[1]):
                newest = offset, timestamp
    return newest


def offsets_and_timestamps(
    batch: RecordBatch, pause: Pause
) -> Iterator[tuple[Sequence[int], Sequence[int]]]:
    """Yields chunks of offsets and their timestamps; raises `CorruptBatch`."""
    appended_ms = None
    if batch.timestamp_type is TimestampType.LOG_APPEND_TIME:
        appended_ms = batch.max_timestamp
        if batch.is_dense:  # the header is sufficient, so nothing is decompressed
            for start in range(batch.base_offset, batch.next_offset, CHUNK_RECORDS):
                offsets = range(start, min(start + CHUNK_RECORDS, batch.next_offset))
                yield offsets, [appended_ms] * len(offsets)
                pause()
            return
    payload = batch.unpacked()
    left, position = batch.record_count, 0
    if left * RECORD_BYTES_MIN > len(payload):
        raise CorruptBatch(f"{left} records do not fit into {len(payload)} bytes")
    while left:
        count = min(left, CHUNK_RECORDS)
        offset_deltas, timestamp_deltas, position = read_deltas(payload, position, count)
        base_offset, base_timestamp = batch.base_offset, batch.base_timestamp
        if appended_ms is not None:
            timestamps = [appended_ms] * count
        else:
            timestamps = [base_timestamp + it for it in timestamp_deltas]
            if not INT64_MIN <= min(timestamps) <= max(timestamps) <= INT64_MAX:
                timestamps = list(map(int64, timestamps))
        yield [base_offset + it for it in offset_deltas], timestamps
        left -= count
        pause()


def read_deltas(payload: Bytes, position: int, count: int) -> tuple[list[int], list[int], int]:
    """Returns offset and timestamp deltas of `count` records and the position after them.

    Varints of one and two bytes, the usual case, are decoded inline to avoid function calls.
    """
    offset_deltas, timestamp_deltas = [], []
    payload_bytes = len(payload)
    try:
        for _ in range(count):
            size = payload[position]
            if size < 0x80:
                position += 1
            elif (second := payload[position + 1]) < 0x80:
                size = size & 0x7F | second << 7
                position += 2
            else:
                size, position = read_varint(payload, position)
                size <<= 1
            end = position + (size >> 1)
            if size & 1 or size < 2 * (RECORD_BYTES_MIN - 1) or end > payload_bytes:
                raise CorruptBatch(f"record before byte {position} has an invalid length")
            delta = payload[position + 1]
            if delta < 0x80:
                timestamp_deltas.append((delta >> 1) ^ -(delta & 1))
                position += 2
            else:
                delta, position = read_varlong(payload, position + 1)
                timestamp_deltas.append(delta)
            delta = payload[position]
            if delta < 0x80:
                offset_deltas.append((delta >> 1) ^ -(delta & 1))
            elif (second := payload[position + 1]) < 0x80:
                delta = delta & 0x7F | second << 7
                offset_deltas.append((delta >> 1) ^ -(delta & 1))
            else:
                delta, position = read_varint(payload, position)
                offset_deltas.append(delta)
            position = end
    except IndexError:
        raise CorruptBatch(f"last record is truncated at byte {payload_bytes}") from None
    return offset_deltas, timestamp_deltas, position
