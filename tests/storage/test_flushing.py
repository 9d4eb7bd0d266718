"""When records are made durable, and what is known to be so."""

from pathlib import Path

import pytest

from pykbroker_storage.configuration import LogConfiguration
from tests.storage.batches import NOW, append, open_log
from tests.storage.disks import CountingDisk, FailingDisk


@pytest.mark.parametrize(
    ("flush_messages", "recovery_points"), [(1, [1, 2, 3, 4]), (3, [0, 0, 3, 3])]
)
def test_a_flush_follows_every_so_many_records(
    tmp_path: Path, flush_messages: int, recovery_points: list[int]
) -> None:
    disk = CountingDisk()
    log = open_log(tmp_path, LogConfiguration(flush_messages=flush_messages), disk=disk)
    for expected in recovery_points:
        append(log, b"a")
        assert log.recovery_point == expected
    assert disk.calls["fdatasync"] == len(set(recovery_points) - {0})


def test_a_flush_is_due_when_its_time_has_passed(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfiguration(flush_ms=100))
    assert log.flush_due(NOW + 100) is None  # nothing to flush
    append(log, b"a")
    assert log.flush_due(NOW + 199) is None
    assert log.flush_due(NOW + 200) == 1
    log.flush(1)
    assert log.flush_due(NOW + 300) is None


def test_a_sealed_segment_is_due_to_be_flushed(tmp_path: Path) -> None:
    disk = CountingDisk()
    log = open_log(tmp_path, LogConfiguration(segment_bytes=200), disk=disk)
    for _ in range(5):
        append(log, bytes(100))
    assert log.flush_due(NOW) == 4
    log.flush(4)
    assert log.recovery_point == 4
    assert disk.calls["fdatasync"] == 4 * 3  # each log and its two indexes
    assert log.flush_due(NOW) is None


def test_what_is_durable_is_not_flushed_again(tmp_path: Path) -> None:
    disk = CountingDisk()
    log = open_log(tmp_path, disk=disk)
    append(log, b"a")
    log.flush()
    calls = disk.calls["fdatasync"]
    log.flush()
    assert disk.calls["fdatasync"] == calls


def test_jitter_lets_a_segment_end_early_but_never_late(tmp_path: Path) -> None:
    ends = set()
    for number in range(20):
        log = open_log(
            tmp_path / str(number), LogConfiguration(segment_ms=100, segment_jitter_ms=50)
        )
        append(log, b"a", timestamp=NOW)
        late = 0
        while log.segment_count == 1:
            late += 1
            append(log, b"a", timestamp=NOW + late)
        ends.add(late)
    assert all(51 <= end <= 101 for end in ends)
    assert len(ends) > 5


def test_a_failed_directory_sync_is_repeated_by_the_next_flush(tmp_path: Path) -> None:
    disk = FailingDisk()
    log = open_log(tmp_path, disk=disk)
    append(log, b"a")
    disk.broken = {"sync_directory"}
    with pytest.raises(OSError, match="error"):
        log.flush()
    assert log.recovery_point == 0
    disk.broken.clear()
    disk.calls.clear()
    log.flush()
    assert disk.calls["sync_directory"] == 2  # the partition's and the log directory
    assert log.recovery_point == 1
