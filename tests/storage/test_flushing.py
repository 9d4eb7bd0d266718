"""When records are flushed, and which of them count as flushed."""

import errno
import os
from bisect import bisect_right
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pykbroker_storage import filesystem, segments
from pykbroker_storage.configuration import LogConfiguration
from pykbroker_storage.filesystem import FileSystem, FlushFailed
from pykbroker_storage.log import Log
from tests.storage.batches import NOW, ONE_SEGMENT, SMALL, append, open_log, records_from
from tests.storage.disks import CountingDisk, FailingDisk

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.parametrize(("flush_messages", "due"), [(1, [1, 2, 3, 4]), (3, [3])])
def test_a_flush_is_due_after_flush_messages(
    tmp_path: Path, flush_messages: int, due: list[int]
) -> None:
    log = open_log(tmp_path, LogConfiguration(flush_messages=flush_messages))
    found = []
    for _ in range(4):
        append(log, b"a")
        if log.is_flush_due:
            assert log.flush_due(NOW) == log.log_end_offset
            found.append(log.log_end_offset)
            log.flush()
            assert log.flush_due(NOW) is None
    assert found == due


def test_an_append_flushes_nothing_by_itself(tmp_path: Path) -> None:
    """Appends run on the event loop, which must not wait for a disk."""
    disk = CountingDisk()
    log = open_log(tmp_path, LogConfiguration(flush_messages=1), disk=disk)
    append(log, b"a")
    assert (disk.calls["fdatasync"], log.recovery_point) == (0, 0)


def test_appends_raise_between_a_failed_flush_and_a_successful_one(tmp_path: Path) -> None:
    disk = FailingDisk()
    log = open_log(tmp_path, disk=disk)
    append(log, b"a")
    disk.broken = {"fdatasync"}
    for _ in range(2):
        with pytest.raises(FlushFailed):
            log.flush()
        with pytest.raises(FlushFailed):
            append(log, b"b")
        assert (log.log_end_offset, log.recovery_point) == (1, 0)
        assert log.flush_due(NOW) == 1
    disk.broken.clear()
    log.flush()
    append(log, b"b")
    assert (log.log_end_offset, log.recovery_point) == (2, 1)


class ForgetfulDisk(FileSystem):
    """Like Linux: after a failed fsync, lost pages count as clean."""

    def __init__(self) -> None:
        self.fails = False
        self.dirty: dict[int, set[int]] = {}
        self.lost: dict[int, set[int]] = {}

        def pwrite(descriptor: int, data: bytes, position: int) -> int:
            file = os.fstat(descriptor).st_ino
            written = set(range(position, position + len(data)))
            self.dirty.setdefault(file, set()).update(written)
            self.lost.setdefault(file, set()).difference_update(written)
            return os.pwrite(descriptor, data, position)

        def fdatasync(descriptor: int) -> None:
            file = os.fstat(descriptor).st_ino
            dirty = self.dirty.pop(file, set())
            if self.fails:
                self.lost.setdefault(file, set()).update(dirty)
                raise OSError(errno.EIO, os.strerror(errno.EIO))

        self.pwrite = pwrite  # type: ignore[assignment]  # only bytes are written here
        self.fdatasync = fdatasync

    def on_disk(self, path: Path) -> bool:
        file = path.stat().st_ino
        return not self.dirty.get(file) and not self.lost.get(file)


def test_a_flush_after_a_failed_one_rewrites_the_bytes(tmp_path: Path) -> None:
    disk = ForgetfulDisk()
    log = open_log(tmp_path, SMALL, disk=disk)
    for number in range(5):
        append(log, b"%d" % number)
    log.flush(log.log_end_offset)
    for _ in range(10):
        append(log, bytes(250))
    disk.fails = True
    with pytest.raises(FlushFailed):
        log.flush()
    disk.fails = False
    log.flush()
    assert log.segment_count > 2
    for path in tmp_path.glob("*"):
        if path.suffix in {".log", ".index", ".timeindex"} and int(path.stem) < 12:
            assert disk.on_disk(path), path
    assert log.recovery_point == log.log_end_offset == 15
    assert [offset for offset, _ in records_from(log, 0)] == list(range(15))


def test_bytes_lost_by_a_failed_flush_never_count_as_flushed(tmp_path: Path) -> None:
    disk = FailingDisk()
    log = open_log(tmp_path, ONE_SEGMENT, disk=disk)
    append(log, b"kept")
    log.flush()
    append(log, b"lost")
    disk.broken = {"fdatasync"}
    with pytest.raises(FlushFailed):
        log.flush()
    disk.broken.clear()
    file = tmp_path / f"{0:020d}.log"
    data = bytearray(file.read_bytes())
    data[-3:] = bytes(3)
    file.write_bytes(data)
    for _ in range(2):
        with pytest.raises(FlushFailed, match="lost by a failed flush"):
            log.flush()
    assert log.recovery_point == 1
    with pytest.raises(FlushFailed):
        append(log, b"after")


def test_a_flush_is_due_after_flush_ms(tmp_path: Path) -> None:
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
    assert disk.calls["fdatasync"] == 4 * 3 + 1  # each log, its two indexes; the leader epochs
    assert log.flush_due(NOW) is None


def five_segments(directory: Path, disk: FileSystem) -> Log:
    log = open_log(directory, LogConfiguration(segment_bytes=200), disk=disk)
    for _ in range(5):
        append(log, bytes(100))
    return log


class DiskWithRetention(CountingDisk):
    """Runs a function once during a rename or flush, as another thread could."""

    def __init__(self) -> None:
        super().__init__()
        self.meanwhile: Callable[[], object] | None = None

    def rename(self, source: str, target: str) -> None:
        super().rename(source, target)
        self.call()

    def call(self) -> None:
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            meanwhile()


def test_a_flush_continues_when_retention_deletes_segments_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = DiskWithRetention()
    log = five_segments(tmp_path, disk)
    log.flush(2)
    disk.calls.clear()
    disk.meanwhile = lambda: log.advance_log_start(2, NOW)

    def search(*args: Any, **kwargs: Any) -> int:
        found = bisect_right(*args, **kwargs)
        disk.call()
        return found

    monkeypatch.setattr(segments, "bisect_right", search)
    log.flush(5)
    assert log.segment_count == 3
    assert disk.calls["fdatasync"] == 2 * 3 + 1 + 1  # two sealed segments, the active, the epochs
    assert log.recovery_point == 5


def test_a_flush_ignores_missing_files_of_segments_deleted_meanwhile(tmp_path: Path) -> None:
    disk = DiskWithRetention()
    log = five_segments(tmp_path, disk)
    disk.meanwhile = log.flush
    log.advance_log_start(3, NOW)
    assert disk.meanwhile is None
    assert log.recovery_point == 5


def test_log_start_offset_follows_segments_deleted_before_a_disk_error(
    tmp_path: Path,
) -> None:
    disk = DiskWithRetention()
    log = five_segments(tmp_path, disk)
    log.configuration = LogConfiguration(segment_bytes=200, retention_bytes=1)
    renames = 0

    def fail_at_the_second_segment() -> None:
        nonlocal renames
        renames += 1
        if renames == 4:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        disk.meanwhile = fail_at_the_second_segment

    disk.meanwhile = fail_at_the_second_segment
    with pytest.raises(OSError, match="error"):
        log.enforce_retention(NOW)
    assert (log.segment_count, log.log_start_offset) == (4, 1)
    log.enforce_retention(NOW)
    assert (log.segment_count, log.log_start_offset) == (1, 4)


def test_flushed_records_are_not_flushed_again(tmp_path: Path) -> None:
    disk = CountingDisk()
    log = open_log(tmp_path, disk=disk)
    append(log, b"a")
    log.flush()
    calls = disk.calls["fdatasync"]
    log.flush()
    assert disk.calls["fdatasync"] == calls


def test_jitter_shortens_the_life_of_a_segment(tmp_path: Path) -> None:
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


def test_the_next_flush_retries_a_failed_directory_sync(tmp_path: Path) -> None:
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


class MacsFcntl:
    """Like macOS, where `fsync` leaves the bytes in the cache of the drive."""

    F_FULLFSYNC = 51

    def __init__(self, refusal: int | None) -> None:
        self.refusal = refusal

    def fcntl(self, _: int, command: int) -> None:
        assert command == self.F_FULLFSYNC
        if self.refusal is not None:
            raise OSError(self.refusal, os.strerror(self.refusal))


@pytest.mark.parametrize(
    ("refusal", "is_flushed", "uses_fsync"),
    [
        (None, True, False),
        (errno.ENOTSUP, True, True),
        (errno.EINVAL, True, True),
        (errno.EIO, False, False),
    ],
)
def test_a_flush_on_macos_includes_the_cache_of_the_drive(
    monkeypatch: pytest.MonkeyPatch,
    refusal: int | None,
    *,
    is_flushed: bool,
    uses_fsync: bool,
) -> None:
    fsynced: list[int] = []
    monkeypatch.setattr(filesystem, "fcntl", MacsFcntl(refusal))
    monkeypatch.setattr(os, "fsync", fsynced.append)
    with nullcontext() if is_flushed else pytest.raises(OSError, match="error"):
        filesystem._full_flush(3)
    assert fsynced == [3] * uses_fsync


def test_a_flush_does_not_cover_records_that_replace_truncated_ones(tmp_path: Path) -> None:
    disk = CountingDisk()
    log = open_log(tmp_path, ONE_SEGMENT, disk=disk)
    for _ in range(4):
        append(log, b"a")
    flush = disk.fdatasync

    def flush_during_truncation(descriptor: int) -> None:
        disk.fdatasync = flush
        flush(descriptor)
        log.truncate_to(2, NOW)
        append(log, b"b", leader_epoch=1)

    disk.fdatasync = flush_during_truncation
    log.flush()
    assert (log.log_end_offset, log.recovery_point) == (3, 0)
    log.flush()
    assert log.recovery_point == 3
