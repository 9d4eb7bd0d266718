import pytest

from pykbroker_protocol.records.batch import (
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    SEQUENCE_MAX,
    RecordBatch,
    TimestampType,
    iterate_batches,
    stamp_log_append_time,
)
from pykbroker_protocol.records.compression import Compression
from pykbroker_protocol.records.corrupt import CorruptBatch, TruncatedBatch

# One record, key null, value "value", created at 1700000000000.
ONE_RECORD = bytes.fromhex(
    "0000000000000000"  # base offset
    "0000003d"  # length
    "ffffffff"  # partition leader epoch
    "02"  # magic
    "00000000"  # crc, filled in below
    "0000"  # attributes
    "00000000"  # last offset delta
    "0000018bcfe56800"  # base timestamp
    "0000018bcfe56800"  # max timestamp
    "ffffffffffffffff"  # producer id
    "ffff"  # producer epoch
    "ffffffff"  # base sequence
    "00000001"  # record count
    "16"
    "00"
    "00"
    "00"
    "01"
    "0a"
    "76616c7565"
    "00"
)


def a_batch() -> bytearray:
    batch = bytearray(ONE_RECORD)
    stamp_log_append_time(batch, 0, 1700000000000)
    return batch


def test_each_field_of_the_header_is_parsed() -> None:
    batch = RecordBatch.parse(ONE_RECORD)
    assert batch.base_offset == 0
    assert batch.size_bytes == len(ONE_RECORD)
    assert batch.partition_leader_epoch == -1
    assert batch.magic == 2
    assert batch.base_timestamp == batch.max_timestamp == 1700000000000
    assert batch.producer_id == NO_PRODUCER_ID
    assert batch.base_sequence == batch.last_sequence == NO_SEQUENCE
    assert batch.record_count == 1
    assert batch.next_offset == 1
    assert batch.compression is Compression.NONE
    assert batch.timestamp_type is TimestampType.CREATE_TIME
    assert not batch.is_idempotent
    assert bytes(batch.view) == ONE_RECORD


def test_assigning_offsets_does_not_change_the_crc() -> None:
    stored = a_batch() + a_batch()
    RecordBatch.parse(stored).assign_offsets(40, 3)
    RecordBatch.parse(stored, len(ONE_RECORD)).assign_offsets(41, 4)
    batches = list(iterate_batches(stored))
    assert [(b.base_offset, b.partition_leader_epoch) for b in batches] == [(40, 3), (41, 4)]
    assert all(batch.is_crc_valid() for batch in batches)


def test_stamping_log_append_time_updates_the_crc() -> None:
    stored = a_batch() + a_batch()
    stamp_log_append_time(stored, len(ONE_RECORD), 1800000000000)
    first, second = iterate_batches(stored)
    assert second.is_crc_valid()
    assert second.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert (first.max_timestamp, second.max_timestamp) == (1700000000000, 1800000000000)


def test_a_flipped_bit_invalidates_the_crc() -> None:
    stored = a_batch()
    assert RecordBatch.parse(stored).is_crc_valid()
    stored[70] ^= 1
    assert not RecordBatch.parse(stored).is_crc_valid()


@pytest.mark.parametrize(
    ("base", "delta", "last"), [(0, 4, 4), (SEQUENCE_MAX, 0, SEQUENCE_MAX), (SEQUENCE_MAX, 1, 0)]
)
def test_sequence_numbers_wrap_to_zero(base: int, delta: int, last: int) -> None:
    batch = RecordBatch.parse(ONE_RECORD)
    batch.base_sequence, batch.last_offset_delta = base, delta
    assert batch.last_sequence == last


@pytest.mark.parametrize("size", [0, 1, 11, 60, 61, len(ONE_RECORD) - 1])
def test_a_torn_batch_is_truncated(size: int) -> None:
    with pytest.raises(TruncatedBatch):
        RecordBatch.parse(ONE_RECORD[:size])


@pytest.mark.parametrize(
    ("position", "value"),
    [(16, "01"), (8, "00000030"), (8, "80000000"), (23, "80000000"), (57, "ffffffff")],
)
def test_an_impossible_header_is_corrupt(position: int, value: str) -> None:
    broken = bytearray(ONE_RECORD)
    patch = bytes.fromhex(value)
    broken[position : position + len(patch)] = patch
    with pytest.raises(CorruptBatch):
        RecordBatch.parse(broken)


def test_an_unknown_compression_type_raises_when_it_is_read() -> None:
    batch = RecordBatch.parse(ONE_RECORD)
    batch.attributes = 5
    with pytest.raises(CorruptBatch):
        _ = batch.compression
