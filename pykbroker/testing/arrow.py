"""A topic as an Arrow table whose keys and values are views of the mapped segment files."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa

from pykbroker.partitions.isolation import Isolation
from pykbroker.testing.inspection import batches_of, partitions_of
from pykbroker_protocol.records.batch import HEADER_BYTES, TimestampType
from pykbroker_protocol.records.compression import Compression
from pykbroker_protocol.records.varint import read_varint, read_varlong

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pykbroker.broker import Broker
    from pykbroker.partitions.partition import Partition
    from pykbroker_protocol.records.batch import RecordBatch

SCHEMA: Final = pa.schema(
    [
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", pa.timestamp("ms", tz="UTC"), nullable=False),
        pa.field("key", pa.binary_view()),
        pa.field("value", pa.binary_view()),
    ]
)
INLINE_BYTES_MAX: Final = 12
"""Arrow stores values up to this length inside the view."""
SHORT: Final = struct.Struct("<i12s")
LONG: Final = struct.Struct("<i4sii")
NULL: Final = bytes(16)


class Span(NamedTuple):
    """The position of a key or value in a buffer; length -1 means null."""

    start: int
    length: int


class LocatedRecord(NamedTuple):
    """Offset, timestamp and the positions of key and value of a record."""

    offset: int
    timestamp_ms: int
    key: Span
    value: Span


def table(broker: Broker, topic: str, *, partition: int | None, committed_only: bool) -> pa.Table:
    """The records that a consumer can read, in one chunk per partition."""
    isolation = Isolation.READ_COMMITTED if committed_only else Isolation.READ_UNCOMMITTED
    chosen = partitions_of(broker, topic, only=partition)
    batches = [columns_of(it, isolation) for it in chosen]
    return pa.Table.from_batches(batches, schema=SCHEMA)


def columns_of(partition: Partition, isolation: Isolation) -> pa.RecordBatch:
    buffers: list[memoryview] = []
    offsets, timestamps = [], []
    keys, values = ViewColumn(), ViewColumn()
    for batch in batches_of(partition, partition.log.log_start_offset, isolation):
        buffer, position = payload_of(batch)
        for record in locate_records(batch, buffer, position):
            if record.offset >= partition.log.log_start_offset:
                offsets.append(record.offset)
                timestamps.append(record.timestamp_ms)
                keys.add(record.key, buffer, len(buffers))
                values.add(record.value, buffer, len(buffers))
        buffers.append(buffer)
    columns = [
        pa.repeat(pa.scalar(partition.index, pa.int32()), len(offsets)),
        pa.array(offsets, SCHEMA.field("offset").type),
        pa.array(timestamps, SCHEMA.field("timestamp").type),
        keys.column(buffers),
        values.column(buffers),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


class ViewColumn:
    """Builds a binary_view column: each row is a view into one of the buffers."""

    def __init__(self) -> None:
        self._views = bytearray()
        self._valid: list[bool] = []

    def add(self, span: Span, buffer: memoryview, buffer_index: int) -> None:
        start, length = span
        self._valid.append(length >= 0)
        if length < 0:
            self._views += NULL
        elif length <= INLINE_BYTES_MAX:
            self._views += SHORT.pack(length, bytes(buffer[start : start + length]))
        else:
            self._views += LONG.pack(length, bytes(buffer[start : start + 4]), buffer_index, start)

    def column(self, buffers: list[memoryview]) -> Any:
        validity = None
        if not all(self._valid):
            validity = pa.array(self._valid, pa.bool_()).buffers()[1]
        parts = [validity, pa.py_buffer(bytes(self._views)), *map(pa.py_buffer, buffers)]
        return pa.Array.from_buffers(pa.binary_view(), len(self._valid), parts)


def payload_of(batch: RecordBatch) -> tuple[memoryview, int]:
    """Returns a buffer with the records of a batch and the position of the first record."""
    if batch.compression is Compression.NONE:
        return batch.view, HEADER_BYTES
    return memoryview(batch.payload()), 0


def locate_records(
    batch: RecordBatch, buffer: memoryview, position: int
) -> Iterator[LocatedRecord]:
    """Yields the records without validation: the batch was validated when it was appended."""
    appended = batch.timestamp_type is TimestampType.LOG_APPEND_TIME
    for _ in range(batch.record_count):
        size, position = read_varint(buffer, position)
        end = position + size
        timestamp_delta, position = read_varlong(buffer, position + 1)  # after the attributes
        offset_delta, position = read_varint(buffer, position)
        key_length, position = read_varint(buffer, position)
        key = Span(position, key_length)
        value_length, position = read_varint(buffer, position + max(key_length, 0))
        yield LocatedRecord(
            batch.base_offset + offset_delta,
            batch.max_timestamp if appended else batch.base_timestamp + timestamp_delta,
            key,
            Span(position, value_length),
        )
        position = end
