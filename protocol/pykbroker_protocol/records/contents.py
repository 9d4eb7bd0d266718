"""Looks inside a batch where its header does not say enough: a check, another codec."""

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
from pykbroker_protocol.records.times import CHUNK_RECORDS, Breathe, without_pause
from pykbroker_protocol.records.varint import read_varint, read_varlong

KEYLESS_TOLD_MAX = 1_000
"""Records without a key that are named; a batch may hold millions."""


def validate_contents(
    batch: RecordBatch, *, keys_required: bool = False, breathe: Breathe = without_pause
) -> Bytes:
    """Raises `CorruptBatch` unless the records are what the header says they are.

    That is: readable, as many as counted, with offset deltas 0, 1, 2 and so on. A compacted
    topic also requires keys. Kafka answers a batch that fails here with INVALID_RECORD. Returns the
    records uncompressed.
    """
    payload = batch.unpacked()
    keyless = keyless_records(batch, payload, breathe)
    if keys_required and keyless:
        raise CorruptBatch(f"the record at offset {batch.base_offset + keyless[0]} has no key")
    return payload


def keyless_records(
    batch: RecordBatch, payload: Bytes, breathe: Breathe = without_pause
) -> list[int]:
    """Validates the uncompressed records; the first of those without a key, by their index."""
    count = batch.record_count
    if count != batch.last_offset_delta + 1:
        raise CorruptBatch(f"{count} records up to offset delta {batch.last_offset_delta}")
    if count * RECORD_BYTES_MIN > len(payload):
        raise CorruptBatch(f"{count} records do not fit into {len(payload)} bytes")
    position = 0
    keyless: list[int] = []
    try:
        for start in range(0, count, CHUNK_RECORDS):
            indexes = range(start, min(start + CHUNK_RECORDS, count))
            position = _check_records(payload, position, indexes, keyless, breathe)
            breathe()
    except IndexError:
        raise CorruptBatch(f"the records end within one, at {len(payload)}") from None
    if position != len(payload):
        raise CorruptBatch(f"{len(payload) - position} bytes follow the last record")
    return keyless


def _check_records(
    payload: Bytes, position: int, indexes: Iterable[int], keyless: list[int], breathe: Breathe
) -> int:
    """The position after these records. Varints of one byte are read in place: most are."""
    payload_bytes = len(payload)
    for index in indexes:
        size, at = read_varint(payload, position)
        end = at + size
        if size < RECORD_BYTES_MIN - 1 or end > payload_bytes:
            raise CorruptBatch(f"a record at {position} claims {size} bytes")
        at += 1
        at = at + 1 if payload[at] < 0x80 else read_varlong(payload, at)[1]
        delta, at = read_varint(payload, at)
        if delta != index:
            raise CorruptBatch(f"offset delta {delta} stands where {index} belongs")
        if payload[at] == 1:  # -1: null
            at += 1
            if len(keyless) < KEYLESS_TOLD_MAX:
                keyless.append(index)
        else:
            at = _skip_bytes(payload, at)
        at = _skip_bytes(payload, at)
        if payload[at] == 0:
            at += 1
        else:
            at = _skip_headers(payload, at, end, breathe)
        if at != end:
            raise CorruptBatch(f"a record at {position} ends {end - at} bytes from where it says")
        position = end
    return position


def _skip_bytes(payload: Bytes, position: int) -> int:
    """The position after a field that may be null."""
    length = payload[position]
    if length < 0x80 and not length & 1:
        return position + 1 + (length >> 1)
    length, position = read_varint(payload, position)
    if length < -1:
        raise CorruptBatch(f"a field of {length} bytes")
    return position + max(length, 0)


def _skip_headers(payload: Bytes, position: int, end: int, breathe: Breathe) -> int:
    count, position = read_varint(payload, position)
    if count < 0 or count * HEADER_BYTES_MIN > end - position:
        raise CorruptBatch(f"{count} headers do not fit into a record")
    for number in range(1, count + 1):
        if payload[position] & 1:  # the sign is the lowest bit
            raise CorruptBatch("a header without a name")
        position = _skip_bytes(payload, _skip_bytes(payload, position))
        if number % CHUNK_RECORDS == 0:
            breathe()
    return position


def recompress(batch: RecordBatch, compression: Compression, payload: Bytes | None = None) -> bytes:
    """The same batch with its records packed in another way."""
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
