"""Timestamp lookups in a log whose first records were deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker_protocol.records.batch import iterate_batches
from tests.storage.batches import NOW, batch_bytes, open_log

if TYPE_CHECKING:
    from pathlib import Path

    from pykbroker_storage.log import Log


def log_of_six(directory: Path) -> Log:
    """Appends three batches of two records; the first record is the newest."""
    log = open_log(directory / "t-0")
    for age in (0, 2000, 1000):
        records = batch_bytes([b"a", b"b"], timestamp=NOW - age)
        log.append(records, tuple(iterate_batches(records)), leader_epoch=0, now_ms=NOW)
    return log


def test_the_latest_record_is_at_or_above_the_log_start_offset(tmp_path: Path) -> None:
    log = log_of_six(tmp_path)
    latest = log.read_view().latest_timestamp_record()
    assert latest is not None
    assert (latest.offset, latest.timestamp_ms) == (0, NOW)
    for log_start, offset, age in ((1, 1, 0), (2, 4, 1000), (5, 5, 1000)):
        log.advance_log_start(log_start, NOW)
        latest = log.read_view().latest_timestamp_record()
        assert latest is not None
        assert (latest.offset, latest.timestamp_ms) == (offset, NOW - age)
    log.advance_log_start(6, NOW)
    assert log.read_view().latest_timestamp_record() is None


def test_a_lookup_can_start_in_the_middle_of_a_batch(tmp_path: Path) -> None:
    log = log_of_six(tmp_path)
    log.advance_log_start(1, NOW)
    found = log.read_view().offset_at_timestamp(NOW - 5000)
    assert found is not None
    assert found.offset == 1
