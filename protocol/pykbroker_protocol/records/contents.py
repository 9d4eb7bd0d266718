"""Validates and recompresses the records of a batch without decoding keys and values."""

from collections.abc import Iterable

from pykbroker_protocol.records.batch import (
    COMPRESSION_MASK,
    RecordBatch,
    encode_batch,
)
from pykbroker_protocol.records.buffers import Bytes
from pykbroker_protocol.records.compression import Compression, compress
from pykbroker_protocol.records.corrupt import CorruptBatch
from pykbroker_protocol.records.record import HEADER_BYTES_MIN, RECORD_BYTES_MIN
from pykbroker_protocol.records.times import CHUNK_RECORDS, Pause, no_pause
from pykbroker_protocol.records.varint import read_varint, read_varlong

KEYLESS_REPORTED_MAX = 1_000
"""Records without a key that are reported; a batch can contain millions."""


def validate_contents(
    batch: RecordBatch, *, keys_required: bool = False, pause: Pause = no_pause
) -> Bytes:
    """Returns the uncompressed records; raises `CorruptBatch` if they do not match the header.

    Records must be well-formed, as many as the header states, with offset deltas 0, 1, 2 and so on.
    A compacted topic also requires keys. Produce returns INVALID_RECORD for an invalid batch.
    """
    payload = batch.unpacked()
    keyless = keyless_records(batch, payload, pause)
    if keys_required and keyless:
        raise CorruptBatch(f"record at offset {batch.base_offset + keyless[0]} has no key")
    return payload


def keyless_records(batch: RecordBatch, payload: Bytes, pause: Pause = no_pause) -> list[int]:
    """Validates uncompressed records; returns the indexes of the first records without a key."""
    count = batch.record_count
    if count != batch.last_offset_delta + 1:
        raise CorruptBatch(f"{count} records with last offset delta {batch.last_offset_delta}")
    if count * RECORD_BYTES_MIN > len(payload):
        raise CorruptBatch(f"{count} records do not fit into {len(payload)} bytes")
    position = 0
    keyless: list[int] = []
    try:
        for start in range(0, count, CHUNK_RECORDS):
            indexes = range(start, min(start + CHUNK_RECORDS, count))
            position = _check_records(payload, position, indexes, keyless, pause)
            pause()
    except IndexError:
        raise CorruptBatch(f"last record is truncated at byte {len(payload)}") from None
    if position != len(payload):
        raise CorruptBatch(f"{len(payload) - position} bytes follow the last record")
    return keyless


def _check_records(
    payload: Bytes, position: int, indexes: Iterable[int], keyless: list[int], pause: Pause
) -> int:
    """Validates records and returns the position after them.

    Varints of one byte, the usual case, are decoded inline.
    """
    payload_bytes = len(payload)
    for index in indexes:
        size, at = read_varint(payload, position)
        end = at + size
        if size < RECORD_BYTES_MIN - 1 or end > payload_bytes:
            raise CorruptBatch(f"record at byte {position} has an invalid length {size}")
        at += 1
        at = at + 1 if payload[at] < 0x80 else read_varlong(payload, at)[1]
        delta, at = read_varint(payload, at)
        if delta != index:
            raise CorruptBatch(f"offset delta is {delta}, expected {index}")
        if payload[at] == 1:  # -1: null
            at += 1
            if len(keyless) < KEYLESS_REPORTED_MAX:
                keyless.append(index)
        else:
            at = _skip_bytes(payload, at)
        at = _skip_bytes(payload, at)
        if payload[at] == 0:
            at += 1
        else:
            at = _skip_headers(payload, at, end, pause)
        if at != end:
            raise CorruptBatch(f"record at byte {position} ends {end - at} bytes before its length")
        position = end
    return position


def _skip_bytes(payload: Bytes, position: int) -> int:
    """Returns the position after a nullable field."""
    length = payload[position]
    if length < 0x80 and not length & 1:
        return position + 1 + (length >> 1)
    length, position = read_varint(payload, position)
    if length < -1:
        raise CorruptBatch(f"field has an invalid length {length}")
    return position + max(length, 0)


def _skip_headers(payload: Bytes, position: int, end: int, pause: Pause) -> int:
    count, position = read_varint(payload, position)
    if count < 0 or count * HEADER_BYTES_MIN > end - position:
        raise CorruptBatch(f"{count} headers do not fit into the record")
    for number in range(1, count + 1):
        if payload[position] & 1:  # the sign is the lowest bit
            raise CorruptBatch("header has no name")
        position = _skip_bytes(payload, _skip_bytes(payload, position))
        if number % CHUNK_RECORDS == 0:
            pause()
    return position


def recompress(batch: RecordBatch, compression: Compression, payload: Bytes | None = None) -> bytes:
    """Returns the batch with its records compressed by another codec."""
    return encode_batch(
        compress(compression, batch.unpacked() if payload is None else payload),
        attributes=batch.attributes & ~COMPRESSION_MASK | compression,
        base_offset=batch.base_offset,
        partition_leader_epoch=batch.partition_leader_epoch,
        last_offset_delta=batch.last_offset_delta,
        base_timestamp=batch.base_timestamp,
        max_timestamp=batch.max_timestamp,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        record_count=batch.record_count,
    )
