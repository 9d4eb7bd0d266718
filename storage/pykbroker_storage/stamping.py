"""Writes into a producer's batches what the leader decides: offsets, epoch, perhaps the time."""

from collections.abc import Sequence

from pykbroker_protocol.records.batch import (
    LOG_APPEND_TIME_FLAG,
    NO_TIMESTAMP,
    RecordBatch,
    stamp_log_append_time,
)


def stamp_batches(
    records: bytearray | memoryview,
    batches: Sequence[RecordBatch],
    base_offset: int,
    leader_epoch: int,
    log_append_time_ms: int,
) -> int:
    """In the bytes and in the batches read from them alike; returns the offset after the last."""
    position = 0
    for batch in batches:
        batch.assign_offsets(base_offset, leader_epoch)
        if log_append_time_ms != NO_TIMESTAMP:
            stamp_log_append_time(records, position, log_append_time_ms)
            batch.max_timestamp = log_append_time_ms
            batch.attributes |= LOG_APPEND_TIME_FLAG
        base_offset += batch.last_offset_delta + 1
        position += batch.size_bytes
    assert position == len(records), "the batches are not what the records hold"
    return base_offset
