"""Truncation, retention and DeleteRecords, also with open views."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykbroker_protocol.records.batch import iterate_batches
from pykbroker_storage.configuration import CleanupPolicy, LogConfiguration
from pykbroker_storage.deletion import PendingDeletions
from pykbroker_storage.filesystem import LOCAL_DISK
from pykbroker_storage.log import Log, OffsetOutOfRange
from pykbroker_storage.mapped_file import OpenFiles
from pykbroker_storage.retention import SegmentAge, count_expired
from tests.storage.batches import NOW, ONE_SEGMENT, append, open_log, records_from


@settings(max_examples=60)
@given(counts=st.lists(st.integers(1, 3), min_size=1, max_size=20), at=st.integers(0, 60))
def test_truncation_keeps_whole_batches_below_the_offset(
    tmp_path_factory: pytest.TempPathFactory, counts: list[int], at: int
) -> None:
    directory = tmp_path_factory.mktemp("log")
    log = open_log(directory)
    ends = [
        append(log, *[bytes(80)] * count, leader_epoch=n).last_offset + 1
        for n, count in enumerate(counts)
    ]
    log.truncate_to(at, NOW)
    expected_end = max([end for end in ends if end <= at], default=0)
    assert log.log_end_offset == expected_end
    assert [offset for offset, _ in records_from(log, 0)] == list(range(expected_end))
    assert log.leader_epochs.latest_epoch == (ends.index(expected_end) if expected_end else -1)
    append(log, b"after", leader_epoch=99)
    again = open_log(directory)
    assert records_from(again, expected_end) == [(expected_end, b"after")]


def test_a_view_stays_valid_after_truncation(tmp_path: Path) -> None:
    log = open_log(tmp_path, ONE_SEGMENT)
    for _ in range(100):
        append(log, bytes(2000))
    found = log.read(0, bytes_max=10**6, end_offset=100)
    assert found is not None
    log.truncate_to(1, NOW)
    append(log, b"other")
    assert sum(batch.is_crc_valid() for batch in iterate_batches(found.view)) == 100
    assert [offset for offset, _ in records_from(log, 0)] == [0, 1]
    del found
    log.truncate_to(1, NOW)
    assert log.log_end_offset == 1


@pytest.mark.parametrize("at", [0, 3, 9])
def test_records_appended_after_a_restart_and_a_truncation_are_read(
    tmp_path: Path, at: int
) -> None:
    """Batches of an earlier process are verified when they are read; those of this one are not."""
    log = open_log(tmp_path)
    for _ in range(10):
        append(log, bytes(80))
    log.close()
    again = open_log(tmp_path, was_clean=True)
    again.truncate_to(at, NOW)
    for _ in range(10):
        append(again, bytes(33))  # the batches end at other positions than the earlier ones
    assert [offset for offset, _ in records_from(again, 0)] == list(range(at + 10))


def test_truncation_removes_producer_state_above_the_offset(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for sequence in range(30):
        append(log, bytes(100), producer_id=7, base_sequence=sequence)
    log.truncate_to(17, NOW)
    assert [state.last_sequence for state in log.producers.active()] == [16]


def test_a_log_can_be_truncated_fully_and_start_at_any_offset(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for _ in range(30):
        append(log, bytes(100), producer_id=7, base_sequence=0)
    log.truncate_fully_and_start_at(1000, NOW)
    assert (log.log_start_offset, log.log_end_offset, log.segment_count) == (1000, 1000, 1)
    assert len(log.producers) == 0
    assert append(log, b"a").first_offset == 1000
    log.close()
    assert records_from(open_log(tmp_path, was_clean=True), 1000) == [(1000, b"a")]


def test_deleted_records_cannot_be_read(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for _ in range(30):
        append(log, bytes(100))
    before = log.segment_count
    log.advance_log_start(17, NOW)
    assert log.log_start_offset == 17
    assert log.segment_count < before
    with pytest.raises(OffsetOutOfRange):
        log.read(16, bytes_max=100, end_offset=30)
    assert [offset for offset, _ in records_from(log, 17)] == list(range(17, 30))
    with pytest.raises(OffsetOutOfRange):
        log.advance_log_start(31, NOW)


def test_all_records_can_be_deleted(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for _ in range(30):
        append(log, bytes(100))
    log.advance_log_start(30, NOW)
    assert append(log, b"a").first_offset == 30
    log.abandon()
    again = open_log(tmp_path, log_start_offset=30)
    assert records_from(again, 30) == [(30, b"a")]


SEGMENTS = [SegmentAge(10, 100, NOW), SegmentAge(20, 100, NOW + 50), SegmentAge(30, 50, NOW + 90)]


@pytest.mark.parametrize(
    ("settings", "log_start_offset", "now_ms", "expired"),
    [
        ({}, 0, NOW, 0),
        ({"retention_ms": 10}, 0, NOW + 10, 0),
        ({"retention_ms": 10}, 0, NOW + 11, 1),
        ({"retention_ms": 10}, 0, NOW + 61, 2),
        ({"retention_ms": 10}, 0, NOW + 101, 3),
        ({"retention_ms": -1}, 0, NOW + 10**12, 0),
        ({"retention_bytes": 250}, 0, NOW, 0),
        ({"retention_bytes": 151}, 0, NOW, 0),
        ({"retention_bytes": 150}, 0, NOW, 1),
        ({"retention_bytes": 50}, 0, NOW, 2),
        ({"retention_bytes": 0}, 0, NOW, 3),
        ({}, 9, NOW, 0),
        ({}, 10, NOW, 1),
        ({}, 29, NOW, 2),
    ],
)
def test_segments_expire_by_age_size_and_log_start(
    settings: dict[str, int], log_start_offset: int, now_ms: int, expired: int
) -> None:
    configuration = LogConfiguration(**settings)  # type: ignore[arg-type] # only the integers
    found = count_expired(SEGMENTS, configuration, log_start_offset=log_start_offset, now_ms=now_ms)
    assert found == expired


def log_of_ten_segments(directory: Path, **settings: int) -> tuple[Log, PendingDeletions]:
    configuration = LogConfiguration(segment_bytes=500, **settings)  # type: ignore[arg-type]
    pending = PendingDeletions(LOCAL_DISK)
    log = Log.open(
        directory,
        configuration=configuration,
        was_clean=True,
        now_ms=NOW,
        open_files=OpenFiles(LOCAL_DISK, 4),
        pending_deletions=pending,
    )
    for number in range(10):
        append(log, bytes(400), timestamp=NOW + number)
    return log, pending


def test_retention_never_passes_the_high_watermark(tmp_path: Path) -> None:
    log, _ = log_of_ten_segments(tmp_path, retention_ms=1)
    assert log.enforce_retention(NOW + 1000, high_watermark=4) == 4
    assert (log.log_start_offset, log.log_end_offset) == (4, 10)


def test_a_log_whose_records_have_all_expired_continues_empty(tmp_path: Path) -> None:
    log, _ = log_of_ten_segments(tmp_path, retention_ms=1)
    assert log.enforce_retention(NOW + 1000) == 10
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (10, 10, 0)
    assert append(log, b"a").first_offset == 10
    assert log.enforce_retention(NOW - 1) == 0


def test_retention_does_not_touch_a_compacted_log(tmp_path: Path) -> None:
    log, _ = log_of_ten_segments(tmp_path, retention_ms=1)
    log.configuration = LogConfiguration(
        retention_ms=1, cleanup_policy=frozenset({CleanupPolicy.COMPACT})
    )
    assert log.enforce_retention(NOW + 1000) == 0


def test_deleted_segments_are_unlinked_after_file_delete_delay_ms(tmp_path: Path) -> None:
    log, pending = log_of_ten_segments(tmp_path, retention_bytes=1000, file_delete_delay_ms=60)
    deleted = log.enforce_retention(NOW)
    assert deleted == 7
    assert len(list(tmp_path.glob("*.log.deleted"))) == 7
    assert pending.sweep(NOW + 59) == 0
    pending.sweep(NOW + 60)
    assert list(tmp_path.glob("*.deleted")) == []
    assert len(list(tmp_path.glob("*.log"))) == log.segment_count


def test_a_failed_unlink_is_retried_and_does_not_block_others(tmp_path: Path) -> None:
    log, pending = log_of_ten_segments(tmp_path, retention_bytes=1000, file_delete_delay_ms=0)
    log.enforce_retention(NOW)
    stubborn = next(tmp_path.glob("*.log.deleted"))
    stubborn.unlink()
    stubborn.mkdir()
    with pytest.raises(OSError, match="deleted"):
        pending.sweep(NOW)
    assert list(tmp_path.glob("*.deleted")) == [stubborn]
    stubborn.rmdir()
    stubborn.touch()
    assert pending.sweep(NOW) == 1


def test_a_view_of_a_deleted_segment_stays_valid(tmp_path: Path) -> None:
    log, pending = log_of_ten_segments(tmp_path, retention_ms=1, file_delete_delay_ms=0)
    found = log.read(0, bytes_max=10**6, end_offset=10)
    log.enforce_retention(NOW + 1000)
    pending.sweep(NOW + 1000)
    assert found is not None
    assert all(batch.is_crc_valid() for batch in iterate_batches(found.view))
