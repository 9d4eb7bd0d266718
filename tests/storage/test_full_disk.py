"""A full or failing disk makes appends fail and never corrupts the log."""

import errno
import os
from pathlib import Path

import pytest

from pykbroker_storage.configuration import LogConfiguration
from pykbroker_storage.filesystem import LOCAL_DISK, DiskFull
from tests.storage.batches import NOW, ONE_SEGMENT, SMALL, append, open_log, records_from
from tests.storage.disks import FailingDisk, SmallDisk


@pytest.mark.parametrize("room_bytes", [0, 1, 68, 69, 70, 137, 138, 139, 275])
def test_appends_fail_on_a_full_disk_and_succeed_after_space_is_freed(
    tmp_path: Path, room_bytes: int
) -> None:
    disk = SmallDisk(10_000)
    log = open_log(tmp_path, ONE_SEGMENT, disk=disk)
    append(log, b"!")  # the leader epoch is on disk
    disk.room_bytes = room_bytes
    fitting = room_bytes // 69
    for number in range(fitting):
        append(log, b"%d" % number)
    with pytest.raises(DiskFull):
        append(log, b"x")
    assert log.log_end_offset == fitting + 1
    expected = [(0, b"!"), *((number + 1, b"%d" % number) for number in range(fitting))]
    assert records_from(log, 0) == expected
    disk.room_bytes = 10_000
    append(log, b"y")
    log.close()
    log = open_log(tmp_path, ONE_SEGMENT, was_clean=True)
    assert records_from(log, 0) == [*expected, (fitting + 1, b"y")]


def test_an_append_fails_if_the_disk_is_full_during_the_roll(tmp_path: Path) -> None:
    disk = SmallDisk(100_000)
    log = open_log(tmp_path, SMALL, disk=disk)
    for _ in range(3):
        append(log, bytes(250))
    disk.room_bytes = 10
    with pytest.raises(DiskFull):
        append(log, bytes(250))
    assert log.log_end_offset == 3
    disk.room_bytes = 10_000
    append(log, b"a")
    log.abandon()
    log = open_log(tmp_path, SMALL)
    assert [offset for offset, _ in records_from(log, 0)] == [0, 1, 2, 3]


def test_bytes_of_a_failed_append_are_removed_when_the_segment_is_finished(tmp_path: Path) -> None:
    small, log_file = SmallDisk(10_000), tmp_path / f"{0:020d}.log"
    log = open_log(tmp_path, ONE_SEGMENT, disk=small)
    append(log, b"a")
    small.room_bytes = 50

    def no_truncation(descriptor: int, size: int) -> None:
        raise OSError(5, f"{descriptor} stays longer than {size}")

    truncate, small.ftruncate = small.ftruncate, no_truncation
    with pytest.raises(DiskFull):
        append(log, b"b")
    assert log_file.stat().st_size == 69 + 50
    small.ftruncate = truncate
    small.room_bytes = 1000
    log.close()
    assert log_file.stat().st_size == 69
    assert records_from(open_log(tmp_path, ONE_SEGMENT, was_clean=True), 0) == [(0, b"a")]


def test_a_flush_that_fails_does_not_move_the_recovery_point(tmp_path: Path) -> None:
    disk = FailingDisk()
    log = open_log(tmp_path, disk=disk)
    append(log, b"a")
    disk.broken = {"fdatasync"}
    with pytest.raises(OSError, match="error"):
        log.flush()
    assert log.recovery_point == 0
    disk.broken.clear()
    log.flush()
    assert log.recovery_point == 1


def test_a_leader_epoch_whose_write_failed_is_written_by_the_next_append(tmp_path: Path) -> None:
    disk = SmallDisk(10_000)
    log = open_log(tmp_path, ONE_SEGMENT, disk=disk)
    append(log, b"a", leader_epoch=1)
    disk.room_bytes = 3
    with pytest.raises(DiskFull):
        append(log, b"b", leader_epoch=2)
    assert log.leader_epochs.entries() == [(1, 0)]
    disk.room_bytes = 10_000
    append(log, b"b", leader_epoch=2)
    log.close()
    assert open_log(tmp_path, was_clean=True).leader_epochs.entries() == [(1, 0), (2, 1)]


def test_delete_records_works_on_a_full_disk(tmp_path: Path) -> None:
    disk = SmallDisk(100_000)
    log = open_log(tmp_path, SMALL, disk=disk)
    for number in range(20):
        append(log, bytes(250), leader_epoch=number)
    disk.room_bytes = 0
    log.advance_log_start(15, NOW)
    assert log.segment_count < 4
    assert log.leader_epochs.entries()[0] == (15, 15)


@pytest.mark.parametrize("room_bytes", [0, 10, 50, 10_000])
@pytest.mark.parametrize("batches", [1, 3, 20])
def test_retention_works_on_a_full_disk(tmp_path: Path, batches: int, room_bytes: int) -> None:
    disk = SmallDisk(100_000)
    log = open_log(tmp_path, LogConfiguration(segment_bytes=1000, retention_ms=1000), disk=disk)
    for number in range(batches):
        append(log, bytes(250), producer_id=7, base_sequence=number)
    segments = log.segment_count
    disk.room_bytes = room_bytes
    assert log.enforce_retention(NOW + 1001) == segments
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (batches, batches, 0)
    disk.room_bytes = 10_000
    append(log, b"x", producer_id=7, base_sequence=batches)
    log.abandon()
    again = open_log(tmp_path, log_start_offset=batches)
    assert records_from(again, batches) == [(batches, b"x")]
    assert [state.last_sequence for state in again.producers.active()] == [batches]


def test_a_disk_without_free_inodes_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file system can run out of inodes and have free bytes."""

    def refuse(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(DiskFull):
        LOCAL_DISK.open(str(tmp_path / "a"))
