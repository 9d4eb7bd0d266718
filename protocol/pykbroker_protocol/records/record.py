"""Encodes and decodes single records of a batch."""

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from pykbroker_protocol.late_dataclass import dataclass
from pykbroker_protocol.records.corrupt import CorruptBatch
from pykbroker_protocol.records.varint import int64, read_varint, read_varlong, write_varint

Header: TypeAlias = tuple[str, bytes | None]

# length, attributes, timestamp delta, offset delta, key length, value length, header count
RECORD_BYTES_MIN = 7
HEADER_BYTES_MIN = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A record with its offset and timestamp."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()


def read_records(
    payload: bytes,
    count: int,
    *,
    base_offset: int,
    base_timestamp: int,
    log_append_time_ms: int | None = None,
) -> Iterator[Record]:
    """Yields `count` records of the uncompressed `payload`, which must contain nothing else."""
    if count * RECORD_BYTES_MIN > len(payload):
        raise CorruptBatch(f"{count} records do not fit into {len(payload)} bytes")
    position = 0
    for _ in range(count):
        record, position = _read_record(
            payload, position, base_offset, base_timestamp, log_append_time_ms
        )
        yield record
    if position != len(payload):
        raise CorruptBatch(f"{len(payload) - position} bytes follow the last record")


def write_record(
    output: bytearray,
    *,
    offset_delta: int,
    timestamp_delta: int,
    key: bytes | None,
    value: bytes | None,
    headers: Sequence[Header] = (),
) -> None:
    """Appends one record to the uncompressed records of a batch."""
    body = bytearray(b"\0")  # attributes: no bit is defined
    write_varint(body, timestamp_delta)
    write_varint(body, offset_delta)
    _write_bytes(body, key)
    _write_bytes(body, value)
    write_varint(body, len(headers))
    for name, header_value in headers:
        _write_bytes(body, name.encode())
        _write_bytes(body, header_value)
    write_varint(output, len(body))
    output += body


def _read_record(
    payload: bytes, start: int, base_offset: int, base_timestamp: int, appended_ms: int | None
) -> tuple[Record, int]:
    size, position = read_varint(payload, start)
    end = position + size
    if size < RECORD_BYTES_MIN - 1 or end > len(payload):
        raise CorruptBatch(f"record at byte {start} has an invalid length {size}")
    timestamp_delta, position = read_varlong(payload, position + 1)
    offset_delta, position = read_varint(payload, position)
    key, position = _read_bytes(payload, position, end)
    value, position = _read_bytes(payload, position, end)
    headers, position = _read_headers(payload, position, end)
    if position != end:
        raise CorruptBatch(f"record at byte {start} ends {end - position} bytes before its length")
    record = Record(
        offset=base_offset + offset_delta,
        timestamp=int64(base_timestamp + timestamp_delta) if appended_ms is None else appended_ms,
        key=key,
        value=value,
        headers=headers,
    )
    return record, end


def _read_headers(payload: bytes, position: int, end: int) -> tuple[tuple[Header, ...], int]:
    count, position = read_varint(payload, position)
    if count == 0:
        return (), position
    if count < 0 or count * HEADER_BYTES_MIN > end - position:
        raise CorruptBatch(f"{count} headers do not fit into the record")
    headers = []
    for _ in range(count):
        name, position = _read_bytes(payload, position, end)
        if name is None:
            raise CorruptBatch("header has no name")
        value, position = _read_bytes(payload, position, end)
        # Kafka clients also decode invalid UTF-8 with replacement characters.
        headers.append((name.decode(errors="replace"), value))
    return tuple(headers), position


def _read_bytes(payload: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    length, position = read_varint(payload, position)
    if length < 0:
        if length == -1:
            return None, position
        raise CorruptBatch(f"field has an invalid length {length}")
    after = position + length
    if after > end:
        raise CorruptBatch(f"field of {length} bytes, {end - position} are left in the record")
    return payload[position:after], after


def _write_bytes(output: bytearray, field: bytes | None) -> None:
    if field is None:
        write_varint(output, -1)
    else:
        write_varint(output, len(field))
        output += field
