"""Appends, reads, rolls and lookups of a log."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykbroker_protocol.records.batch import RecordBatch, TimestampType, iterate_batches
from pykbroker_storage.batch_scan import CorruptLog
from pykbroker_storage.configuration import CleanupPolicy, LogConfiguration, TimestampSource
from pykbroker_storage.log import LogClosed, OffsetOutOfRange
from pykbroker_storage.mapped_file import INDEXES_MAX
from tests.storage.batches import (
    NOW,
    ONE_SEGMENT,
    SMALL,
    append,
    batch_bytes,
    batches_from,
    open_log,
    records_from,
)
from tests.storage.disks import CountingDisk


def test_offsets_are_assigned_in_order_across_batches(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    assert append(log, b"a", b"b")[:2] == (0, 1)
    assert append(log, b"c")[:2] == (2, 2)
    assert records_from(log, 0) == [(0, b"a"), (1, b"b"), (2, b"c")]


def test_one_append_writes_several_batches(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    records = batch_bytes([b"a", b"b"]) + batch_bytes([b"c"])
    appended = log.append(records, list(iterate_batches(records)), leader_epoch=3, now_ms=NOW)
    assert appended == (0, 2, -1, 0)
    assert [batch.partition_leader_epoch for batch in batches_from(log, 0)] == [3, 3]
    assert log.leader_epochs.entries() == [(3, 0)]


def test_assigning_offsets_keeps_the_checksum_valid(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, b"a")
    append(log, b"b", leader_epoch=7)
    assert all(batch.is_crc_valid() for batch in batches_from(log, 0))


def test_log_append_time_is_the_time_of_the_broker(tmp_path: Path) -> None:
    log = open_log(
        tmp_path, LogConfiguration(message_timestamp_type=TimestampSource.LOG_APPEND_TIME)
    )
    appended = append(log, b"a", timestamp=5, now_ms=NOW + 9)
    (batch,) = batches_from(log, 0)
    assert appended.log_append_time_ms == NOW + 9
    assert batch.is_crc_valid()
    assert (batch.timestamp_type, batch.max_timestamp) == (TimestampType.LOG_APPEND_TIME, NOW + 9)


def test_a_follower_keeps_offsets_and_epochs_of_the_leader(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    first = batch_bytes([b"a"], base_offset=0, leader_epoch=2)
    second = batch_bytes([b"b"], base_offset=5, leader_epoch=4)  # compaction left a gap
    assert log.append_replicated(bytes(first + second), leader_epoch=9, now_ms=NOW)[:2] == (0, 5)
    assert log.log_end_offset == 6
    assert log.leader_epochs.entries() == [(2, 0), (4, 5)]
    assert records_from(log, 1) == [(5, b"b")]


@pytest.mark.parametrize("offset", [-1, 3])
def test_reading_outside_of_the_log_raises(tmp_path: Path, offset: int) -> None:
    log = open_log(tmp_path)
    append(log, b"a", b"b")
    with pytest.raises(OffsetOutOfRange):
        log.read(offset, bytes_max=100, end_offset=2)


def test_reading_at_the_log_end_returns_none(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    assert log.read(0, bytes_max=100, end_offset=0) is None
    append(log, b"a")
    assert log.read(1, bytes_max=100, end_offset=1) is None


def test_a_slice_ends_before_the_batch_that_reaches_the_end_offset(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for values in ((b"a", b"b"), (b"c", b"d"), (b"e", b"f")):
        append(log, *values)
    found = log.read(0, bytes_max=10_000, end_offset=3)
    assert found is not None
    assert [batch.last_offset for batch in iterate_batches(found.view)] == [1]
    assert found.next_offset == 2


@pytest.mark.parametrize(
    ("bytes_max", "first_batch_whole", "batches"),
    [(1, True, 1), (1, False, 0), (69, False, 1), (137, True, 1), (138, True, 2), (9999, True, 3)],
)
def test_a_slice_has_whole_batches_and_always_the_first(
    tmp_path: Path,
    bytes_max: int,
    first_batch_whole: bool,  # noqa: FBT001 - pytest passes it by name
    batches: int,
) -> None:
    log = open_log(tmp_path)
    for value in (b"a", b"b", b"c"):
        append(log, value)
    assert log.size_bytes == 3 * 69
    found = log.read(0, bytes_max=bytes_max, end_offset=3, first_batch_whole=first_batch_whole)
    assert len(list(iterate_batches(found.view)) if found else []) == batches


@settings(max_examples=60)
@given(
    sizes=st.lists(st.lists(st.integers(0, 300), min_size=1, max_size=4), min_size=1, max_size=30),
    data=st.data(),
)
def test_any_offset_is_found_in_any_log(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[list[int]], data: st.DataObject
) -> None:
    log = open_log(tmp_path_factory.mktemp("log"))
    expected = []
    for values in sizes:
        first = append(log, *(bytes(size) for size in values)).first_offset
        expected += [(first + number, bytes(size)) for number, size in enumerate(values)]
    offset = data.draw(st.integers(0, len(expected)))
    end_offset = data.draw(st.integers(offset, len(expected)))
    found = [
        (record.offset, record.value)
        for batch in batches_from(log, offset, end_offset)
        for record in batch.records()
    ]
    whole = [pair for pair in found if pair[0] >= offset]
    assert whole == expected[offset : offset + len(whole)]
    assert all(at < end_offset for at, _ in found)
    if end_offset == len(expected):
        assert len(whole) == end_offset - offset
    log.close()


def test_a_full_segment_is_followed_by_another(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for number in range(20):
        append(log, b"%d" % number * 50)
    assert log.segment_count > 3
    assert [offset for offset, _ in records_from(log, 0)] == list(range(20))
    sizes = [path.stat().st_size for path in tmp_path.glob("*.log")]
    assert all(size <= SMALL.segment_bytes for size in sizes)


def test_a_batch_larger_than_segment_bytes_gets_its_own_segment(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, b"a")
    append(log, bytes(5000))
    append(log, b"c")
    assert log.segment_count == 3
    assert records_from(log, 0)[1] == (1, bytes(5000))


@pytest.mark.parametrize(
    ("configuration", "timestamps", "segments"),
    [
        (LogConfiguration(segment_ms=100), (0, 100), 1),
        (LogConfiguration(segment_ms=100), (0, 101), 2),
        (LogConfiguration(segment_ms=100), (0, 101, 150, 300), 3),
        (LogConfiguration(segment_index_bytes=24, index_interval_bytes=0), (0,) * 10, 5),
        (LogConfiguration(segment_index_bytes=80, index_interval_bytes=0), (0,) * 12, 2),
    ],
)
def test_a_segment_rolls_after_segment_ms_or_with_a_full_index(
    tmp_path: Path, configuration: LogConfiguration, timestamps: tuple[int, ...], segments: int
) -> None:
    log = open_log(tmp_path, configuration)
    for timestamp in timestamps:
        append(log, b"a", timestamp=NOW + timestamp)
    assert log.segment_count == segments


def test_a_segment_without_timestamps_rolls_by_the_clock(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfiguration(segment_ms=100))
    append(log, b"a", timestamp=-1, now_ms=NOW)
    append(log, b"a", timestamp=-1, now_ms=NOW + 100)
    append(log, b"a", timestamp=-1, now_ms=NOW + 101)
    assert log.segment_count == 2


def test_a_slice_never_crosses_into_the_next_segment(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for _ in range(10):
        append(log, bytes(300))
    found = log.read(0, bytes_max=10**6, end_offset=10)
    assert found is not None
    assert found.next_offset == 2
    assert len(list(iterate_batches(found.view))) == 2


def test_a_changed_configuration_applies_to_the_next_append(tmp_path: Path) -> None:
    log = open_log(tmp_path, ONE_SEGMENT)
    append(log, bytes(600))
    log.configuration = SMALL
    append(log, bytes(600))
    assert log.segment_count == 2


@settings(max_examples=60)
@given(
    timestamps=st.lists(st.integers(0, 50), min_size=1, max_size=40),
    start=st.integers(0, 10),
    wanted=st.integers(-1, 52),
)
def test_a_timestamp_lookup_returns_the_first_record_that_is_not_older(
    tmp_path_factory: pytest.TempPathFactory, timestamps: list[int], start: int, wanted: int
) -> None:
    log = open_log(tmp_path_factory.mktemp("log"))
    for timestamp in timestamps:
        append(log, bytes(30), timestamp=timestamp, leader_epoch=1)
    start = min(start, len(timestamps))
    log.advance_log_start(start, NOW)
    expected = next(
        (
            (offset, timestamp, 1)
            for offset, timestamp in enumerate(timestamps)
            if offset >= start and timestamp >= wanted
        ),
        None,
    )
    assert log.read_view().offset_at_timestamp(wanted) == expected
    log.close()


def test_the_latest_timestamp_is_of_the_first_record_that_has_it(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    assert log.read_view().latest_timestamp_record() is None
    for timestamp in (5, 9, 7, 9, 1):
        append(log, bytes(400), timestamp=timestamp, leader_epoch=2)
    assert log.segment_count > 1
    assert log.read_view().latest_timestamp_record() == (1, 9, 2)


def test_a_deleted_log_raises_and_its_slices_stay_valid(tmp_path: Path) -> None:
    log = open_log(tmp_path / "a", ONE_SEGMENT)
    append(log, bytes(100_000))
    append(log, b"tail")
    mapped = log.read(0, bytes_max=10**6, end_offset=2)
    copied = log.read(1, bytes_max=10**6, end_offset=2)
    assert mapped is not None
    assert copied is not None
    log.abandon()
    for path in (tmp_path / "a").iterdir():
        path.unlink()
    assert [batch.is_crc_valid() for batch in iterate_batches(mapped.view)] == [True, True]
    assert RecordBatch.parse(copied.view).is_crc_valid()
    with pytest.raises(LogClosed):
        log.read(0, bytes_max=100, end_offset=2)
    with pytest.raises(LogClosed):
        append(log, b"a")


@pytest.mark.parametrize("before", [[], [b"a"]])
def test_a_gap_too_large_for_relative_offsets_starts_a_segment(
    tmp_path: Path, before: list[bytes]
) -> None:
    log = open_log(tmp_path)
    if before:
        append(log, *before)
    far = batch_bytes([b"far"], base_offset=2**40, leader_epoch=0)
    log.append_replicated(bytes(far), leader_epoch=9, now_ms=NOW)
    assert records_from(log, log.log_start_offset)[-1] == (2**40, b"far")
    log.abandon()
    again = open_log(tmp_path, LogConfiguration(cleanup_policy=frozenset(CleanupPolicy)))
    assert again.log_end_offset == 2**40 + 1


def test_offsets_far_from_an_index_entry_are_found(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfiguration(index_interval_bytes=10**6))
    for number in range(500):
        append(log, b"%d" % number + bytes(number * 7 % 200))
    for offset in (0, 77, 250, 499):
        assert records_from(log, offset)[0][0] == offset
    found = log.read(100, bytes_max=30_000, end_offset=500)
    assert found is not None
    assert found.next_offset > 200


def test_corruption_in_an_open_log_raises(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfiguration(index_interval_bytes=10**6))
    for _ in range(100):
        append(log, b"a")
    path = tmp_path / f"{0:020d}.log"
    content = bytearray(path.read_bytes())
    content[690:702] = bytes(12)  # offset and length of the batch of offset 10
    path.write_bytes(content)
    with pytest.raises(CorruptLog, match="no valid batch header at position 690"):
        log.read(50, bytes_max=1000, end_offset=100)


def test_few_indexes_of_sealed_segments_are_kept_in_memory(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for number in range(INDEXES_MAX * 4):
        append(log, b"%d" % number + bytes(400))
    assert log.segment_count > INDEXES_MAX
    records_from(log, 0)
    loaded = [segment for segment in log._segments if segment.indexes_loaded is not None]
    assert len(loaded) <= INDEXES_MAX + 1
    assert log.read_view().offset_at_timestamp(NOW) == (0, NOW, 0)


def test_the_largest_timestamp_of_a_sealed_segment_needs_no_index_load(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for number in range(40):
        append(log, bytes(400), timestamp=NOW + number)
    log.close()
    disk = CountingDisk()
    log = open_log(tmp_path, was_clean=True, disk=disk, recovery_point=40)
    disk.bytes_read = 0
    assert log.enforce_retention(NOW) == 0
    assert disk.bytes_read == 12 * (log.segment_count - 1)
    assert log.read_view().latest_timestamp_record() == (39, NOW + 39, 0)
