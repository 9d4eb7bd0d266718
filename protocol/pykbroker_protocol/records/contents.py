"""Looks inside a batch where its header does not say enough: a check, a time, another codec."""

from collections.abc import Iterator

from pykbroker_protocol.records.batch import (
    COMPRESSION_MASK,
    RecordBatch,
    TimestampType,
    encode_batch,
)
from pykbroker_protocol.records.compression import Compression, compress
from pykbroker_protocol.records.corrupt import CorruptBatch


def validate_contents(batch: RecordBatch, *, keys_required: bool = False) -> None:
    """Raises `CorruptBatch` unless the records are what the header says they are.

    That is: readable, as many as counted, with offset deltas 0, 1, 2 and so on. A compacted
    topic also requires keys. Kafka answers a batch that fails here with INVALID_RECORD.
    """
    if batch.record_count != batch.last_offset_delta + 1:
        raise CorruptBatch(
            f"{batch.record_count} records up to offset delta {batch.last_offset_delta}"
        )
    for expected_offset, record in enumerate(batch.records(), batch.base_offset):
        if record.offset != expected_offset:
            raise CorruptBatch(f"offset {record.offset} stands where {expected_offset} belongs")
        if keys_required and record.key is None:
            raise CorruptBatch(f"the record at offset {record.offset} has no key")


def recompress(batch: RecordBatch, compression: Compression) -> bytes:
    """The same batch with its records packed in another way."""
    return encode_batch(
        compress(compression, batch.payload()),
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


def offset_and_timestamp_at_or_after(
    batch: RecordBatch, timestamp_ms: int, from_offset: int = 0
) -> tuple[int, int] | None:
    """The first record of the batch, from an offset on, that is not older than `timestamp_ms`."""
    if batch.max_timestamp < timestamp_ms:
        return None
    for offset, timestamp in _offsets_and_timestamps(batch, from_offset):
        if timestamp >= timestamp_ms:
            return offset, timestamp
    return None


def max_timestamp_record(batch: RecordBatch, from_offset: int = 0) -> tuple[int, int] | None:
    """Offset and timestamp of the newest record, the first of several; None if all are gone."""
    newest: tuple[int, int] | None = None
    for offset, timestamp in _offsets_and_timestamps(batch, from_offset):
        if newest is None or timestamp > newest[1]:
            newest = offset, timestamp
    return newest


def _offsets_and_timestamps(batch: RecordBatch, from_offset: int) -> Iterator[tuple[int, int]]:
    if batch.timestamp_type is TimestampType.LOG_APPEND_TIME and batch.is_dense:
        # All records have one time: the first one answers, without being unpacked.
        if batch.last_offset >= from_offset:
            yield max(batch.base_offset, from_offset), batch.max_timestamp
        return
    for record in batch.records():
        if record.offset >= from_offset:
            yield record.offset, record.timestamp
