import pytest

from pykbroker_protocol.records.batch import RecordBatch
from pykbroker_protocol.records.control import (
    ControlRecordType,
    EndTransactionMarker,
    control_key,
    control_record_type,
    decode_marker,
    marker_batch,
)
from pykbroker_protocol.records.corrupt import CorruptBatch


@pytest.mark.parametrize(
    ("is_commit", "key", "value"),
    [(False, "00000000", "00000000002a"), (True, "00000001", "00000000002a")],
)
def test_a_marker_is_one_control_record(*, is_commit: bool, key: str, value: str) -> None:
    marker = EndTransactionMarker(is_commit=is_commit, coordinator_epoch=42)
    stored = marker_batch(
        marker, producer_id=9, producer_epoch=2, timestamp_ms=1000, base_offset=50
    )
    batch = RecordBatch.parse(stored)
    assert batch.is_control
    assert batch.is_transactional
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (9, 2, -1)
    (record,) = batch.records()
    assert (record.offset, record.timestamp) == (50, 1000)
    assert record.key == bytes.fromhex(key)
    assert record.value == bytes.fromhex(value)
    assert decode_marker(record.key, record.value) == marker


@pytest.mark.parametrize("record_type", ControlRecordType)
def test_the_type_of_a_control_key_is_decoded(record_type: ControlRecordType) -> None:
    assert control_record_type(control_key(record_type)) is record_type


def test_decode_marker_returns_none_for_other_types() -> None:
    assert decode_marker(control_key(ControlRecordType.LEADER_CHANGE), b"") is None
    assert control_record_type(bytes.fromhex("00000063")) is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, "00000000002a"),
        ("0000", "00000000002a"),
        ("ffff0000", "00000000002a"),
        ("00000001", None),
        ("00000001", "0000"),
        ("00000001", "ffff0000002a"),
    ],
)
def test_a_malformed_marker_is_corrupt(key: str | None, value: str | None) -> None:
    with pytest.raises(CorruptBatch):
        decode_marker(
            None if key is None else bytes.fromhex(key),
            None if value is None else bytes.fromhex(value),
        )
