"""Looks inside a batch where its header does not say enough: a check, another codec."""

from pykbroker_protocol.records.batch import (
    COMPRESSION_MASK,
    RecordBatch,
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
