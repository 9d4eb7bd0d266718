"""A log directory across starts, shutdowns and crashes."""

import errno
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pykbroker_storage import directory_lock
from pykbroker_storage.checkpoint import decode_offsets
from pykbroker_storage.configuration import LogConfiguration
from pykbroker_storage.filesystem import LOCAL_DISK, FileSystem
from pykbroker_storage.log import Log, LogClosed
from pykbroker_storage.log_directory import (
    ForeignLogDirectory,
    LogDirectory,
    LogDirectoryError,
    LogDirectoryLocked,
    LogDirectoryUnwritable,
)
from pykbroker_storage.mapped_file import OpenFiles
from tests.storage.batches import NOW, append, records_from
from tests.storage.disks import CountingDisk, FailingDisk

pytestmark = pytest.mark.slow

TOPIC_ID = bytes(range(16))
DIRECTORY_ID = bytes(range(1, 17))
CONFIGURATION = LogConfiguration(segment_bytes=1000, index_interval_bytes=200)


def open_directory(
    path: Path,
    *,
    cluster_id: str = "a-cluster",
    node_id: int = 1,
    new_directory_id: bytes = DIRECTORY_ID,
    disk: FileSystem = LOCAL_DISK,
    files_max: int = 32,
) -> LogDirectory:
    return LogDirectory.open(
        str(path),
        cluster_id=cluster_id,
        node_id=node_id,
        new_directory_id=new_directory_id,
        configuration=CONFIGURATION,
        open_files=OpenFiles(disk, files_max),
        filesystem=disk,
    )


def create(directory: LogDirectory, topic: str, partition: int = 0) -> None:
    directory.create_log(
        (topic, partition), topic_id=TOPIC_ID, configuration=CONFIGURATION, now_ms=NOW
    )


def test_a_new_directory_keeps_its_directory_id(tmp_path: Path) -> None:
    directory = open_directory(tmp_path / "data")
    assert directory.directory_id == DIRECTORY_ID
    total, usable = directory.space_bytes()
    assert total > usable > 0
    directory.abandon()
    again = open_directory(tmp_path / "data", new_directory_id=bytes(16))
    assert again.directory_id == DIRECTORY_ID


@pytest.mark.parametrize(
    ("cluster_id", "node_id", "said"),
    [("another", 1, "cluster a-cluster"), ("a-cluster", 2, "node 1")],
)
def test_the_directory_of_another_cluster_or_node_raises(
    tmp_path: Path, cluster_id: str, node_id: int, said: str
) -> None:
    open_directory(tmp_path).abandon()
    with pytest.raises(ForeignLogDirectory, match=said):
        open_directory(tmp_path, cluster_id=cluster_id, node_id=node_id)
    open_directory(tmp_path).abandon()  # the failed open has released the lock


def test_a_directory_has_one_broker_at_a_time(tmp_path: Path) -> None:
    directory = open_directory(tmp_path)
    with pytest.raises(LogDirectoryLocked):
        open_directory(tmp_path)
    directory.abandon()
    open_directory(tmp_path).abandon()


@pytest.mark.skipif(os.name == "nt", reason="Windows has access lists instead")
def test_a_new_directory_is_private_and_an_existing_one_stays_as_it_is(tmp_path: Path) -> None:
    new, existing = tmp_path / "new", tmp_path / "existing"
    existing.mkdir(0o755)
    existing.chmod(0o755)
    for path in (new, existing):
        open_directory(path).abandon()
    assert [it.stat().st_mode & 0o777 for it in (new, existing)] == [0o700, 0o755]


OPEN_IT = """
import sys
from pathlib import Path
from pykbroker_storage.log_directory import LogDirectoryLocked
from tests.storage.test_log_directory import open_directory
try:
    open_directory(Path(sys.argv[1]), new_directory_id=b"another process!")
except LogDirectoryLocked:
    print("locked")
"""


def opened_by_another_process(path: Path) -> str:
    ran = subprocess.run(
        [sys.executable, "-c", OPEN_IT, str(path)],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    return ran.stdout.strip()


def test_a_directory_without_its_lock_file_is_still_locked(tmp_path: Path) -> None:
    directory = open_directory(tmp_path)
    (tmp_path / ".lock").unlink()
    assert opened_by_another_process(tmp_path) == "locked"
    assert directory.keep_lock()
    assert (tmp_path / ".lock").exists()
    assert opened_by_another_process(tmp_path) == "locked"
    directory.abandon()
    assert opened_by_another_process(tmp_path) == ""


def test_a_lock_file_with_another_inode_number_stays_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Closing any descriptor of a file releases all POSIX locks of the process on it."""
    directory = open_directory(tmp_path)
    monkeypatch.setattr(directory_lock, "_is_open_as", lambda _, path: not path.endswith(".lock"))
    assert directory.keep_lock()
    script = "import fcntl, sys; fcntl.lockf(open(sys.argv[1], 'w'), fcntl.LOCK_EX | fcntl.LOCK_NB)"
    ran = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / ".lock")],
        check=False,
        capture_output=True,
        timeout=60,
    )
    assert b"BlockingIOError" in ran.stderr
    directory.abandon()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_directory_can_be_opened_again_while_a_forked_process_lives(tmp_path: Path) -> None:
    directory = open_directory(tmp_path)
    descriptor = directory._lock._directory_descriptor
    assert descriptor is not None
    inherited = os.dup(descriptor)  # like a fork
    directory.abandon()
    open_directory(tmp_path).abandon()
    os.close(inherited)


def remove(path: Path) -> None:
    shutil.rmtree(path)


def move(path: Path) -> None:
    path.rename(path.with_name("moved"))


def replace(path: Path) -> None:
    move(path)
    path.mkdir()


def replace_by_another(path: Path) -> None:
    move(path)
    assert opened_by_another_process(path) == ""


def restore_a_copy(path: Path) -> None:
    """The broker's open files are those of the original, not of the copy."""
    shutil.copytree(path, path.with_name("copy"))
    shutil.rmtree(path)
    path.with_name("copy").rename(path)


@pytest.mark.parametrize("happen", [remove, move, replace, replace_by_another, restore_a_copy])
def test_a_directory_that_is_removed_or_replaced_is_lost(
    tmp_path: Path, happen: Callable[[Path], None]
) -> None:
    path = tmp_path / "data"
    directory = open_directory(path)
    create(directory, "a")
    append(directory.log(("a", 0), now_ms=NOW), b"x")
    assert directory.keep_lock()
    happen(path)
    found = sorted(path.iterdir()) if path.exists() else None
    assert not directory.keep_lock()
    directory.close({}, now_ms=NOW)
    assert (sorted(path.iterdir()) if path.exists() else None) == found  # nothing was written


def test_a_directory_whose_inode_number_changed_is_recognised(tmp_path: Path) -> None:
    """As on network file systems and those of desktop virtual machines."""
    path = tmp_path / "data"
    directory = open_directory(path)
    move(path)
    shutil.copytree(tmp_path / "moved", path)
    assert directory.keep_lock()
    assert opened_by_another_process(path) == "locked"


def test_a_directory_is_locked_against_other_processes(tmp_path: Path) -> None:
    script = (
        "import fcntl, sys, time; file = open(sys.argv[1], 'w');"
        "fcntl.lockf(file, fcntl.LOCK_EX); print('held', flush=True); time.sleep(60)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path / ".lock")], stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        other.stdout.readline()
        with pytest.raises(LogDirectoryLocked):
            open_directory(tmp_path)
        other.kill()
    open_directory(tmp_path).abandon()  # the failed open has released the lock


def test_a_path_that_is_not_a_directory_raises(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(LogDirectoryUnwritable, match="file cannot be used"):
        open_directory(tmp_path / "file")


def test_a_disk_error_raises_log_directory_unwritable(tmp_path: Path) -> None:
    disk = FailingDisk()
    disk.broken = {"pwrite"}
    with pytest.raises(LogDirectoryUnwritable, match="error"):
        open_directory(tmp_path, disk=disk)
    disk.broken.clear()
    open_directory(tmp_path, disk=disk).abandon()


def test_corrupt_meta_properties_raise(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("version=99\n")
    with pytest.raises(LogDirectoryError, match="version 99"):
        open_directory(tmp_path)


@pytest.mark.parametrize("is_clean", [True, False])
def test_logs_are_listed_again_after_a_restart(
    tmp_path: Path,
    is_clean: bool,  # noqa: FBT001 - by name
) -> None:
    directory = open_directory(tmp_path)
    for topic in ("a", "b-with-dashes"):
        create(directory, topic, 3)
        append(directory.log((topic, 3), now_ms=NOW), b"x", leader_epoch=4)
    if is_clean:
        directory.close({("a", 3): 1}, now_ms=NOW, broker_epoch=77)
    else:
        directory.abandon()
    again = open_directory(tmp_path)
    assert (again.was_clean, again.previous_broker_epoch) == (is_clean, 77 if is_clean else -1)
    assert again.partitions() == [("a", 3), ("b-with-dashes", 3)]
    assert ("a", 3) in again
    assert ("a", 4) not in again
    assert records_from(again.log(("a", 3), now_ms=NOW), 0) == [(0, b"x")]
    assert again.topic_id(("b-with-dashes", 3)) == TOPIC_ID
    assert again.high_watermark(("a", 3)) == (1 if is_clean else 0)


def test_a_start_after_a_clean_start_that_crashed_is_not_clean(tmp_path: Path) -> None:
    open_directory(tmp_path).close({}, now_ms=NOW)
    assert json.loads((tmp_path / ".kafka_cleanshutdown").read_bytes()) == {
        "version": 0,
        "brokerEpoch": -1,
    }
    first = open_directory(tmp_path)
    assert first.was_clean
    first.abandon()
    assert not open_directory(tmp_path).was_clean


def test_unopened_logs_are_recovered_before_a_clean_shutdown(tmp_path: Path) -> None:
    directory = open_directory(tmp_path)
    create(directory, "a")
    append(directory.log(("a", 0), now_ms=NOW), b"x")
    directory.abandon()
    path = tmp_path / "a-0" / f"{0:020d}.log"
    path.write_bytes(path.read_bytes() + b"torn")
    open_directory(tmp_path).close({}, now_ms=NOW)
    again = open_directory(tmp_path)
    assert again.was_clean
    assert records_from(again.log(("a", 0), now_ms=NOW), 0) == [(0, b"x")]


def test_a_member_that_stops_before_all_logs_are_recovered_does_not_stop_cleanly(
    tmp_path: Path,
) -> None:
    directory = open_directory(tmp_path)
    create(directory, "a")
    create(directory, "b")
    append(directory.log(("a", 0), now_ms=NOW), b"x")
    directory.abandon()
    directory = open_directory(tmp_path)
    directory.log(("b", 0), now_ms=NOW)
    directory.close({}, now_ms=NOW, broker_epoch=7, opens_all=False)
    again = open_directory(tmp_path)
    assert (again.was_clean, again.previous_broker_epoch) == (False, -1)
    for name in ("a", "b"):
        again.log((name, 0), now_ms=NOW)
    again.close({}, now_ms=NOW, broker_epoch=8, opens_all=False)
    assert open_directory(tmp_path).previous_broker_epoch == 8


def test_a_shutdown_is_not_clean_if_a_log_cannot_be_closed(tmp_path: Path) -> None:
    disk = FailingDisk()
    directory = open_directory(tmp_path, disk=disk)
    create(directory, "a")
    append(directory.log(("a", 0), now_ms=NOW), b"x")
    sync, disk.fdatasync = disk.fdatasync, lambda _: disk._may("fdatasync")
    disk.broken = {"fdatasync"}
    directory.close({}, now_ms=NOW)  # nothing can be flushed
    disk.fdatasync = sync
    disk.broken.clear()
    directory.abandon()
    assert not open_directory(tmp_path).was_clean


def test_checkpoints_restore_recovery_point_and_log_start(tmp_path: Path) -> None:
    directory = open_directory(tmp_path)
    create(directory, "a")
    log = directory.log(("a", 0), now_ms=NOW)
    for _ in range(10):
        append(log, bytes(300))
    log.flush()
    log.advance_log_start(5, NOW)
    directory.checkpoint({("a", 0): 9, ("gone", 0): 3})
    read = {path.name: decode_offsets(path.read_bytes()) for path in tmp_path.glob("*-checkpoint")}
    assert read == {
        "recovery-point-offset-checkpoint": {("a", 0): 10},
        "log-start-offset-checkpoint": {("a", 0): 5},
        "replication-offset-checkpoint": {("a", 0): 9},
    }
    directory.abandon()
    again = open_directory(tmp_path).log(("a", 0), now_ms=NOW)
    assert (again.log_start_offset, again.recovery_point) == (5, 10)


def high_watermarks_in(path: Path) -> dict[tuple[str, int], int]:
    return decode_offsets((path / "replication-offset-checkpoint").read_bytes())


def test_older_offsets_never_replace_newer_ones_in_checkpoints(tmp_path: Path) -> None:
    directory = open_directory(tmp_path)
    create(directory, "a")
    late = directory.offset_snapshot({("a", 0): 1})
    directory.checkpoint({("a", 0): 2})
    directory.save_offsets(late)
    assert high_watermarks_in(tmp_path) == {("a", 0): 2}


@pytest.mark.parametrize("ends_cleanly", [True, False])
def test_no_checkpoint_is_written_after_close(
    tmp_path: Path,
    ends_cleanly: bool,  # noqa: FBT001 - by name
) -> None:
    directory = open_directory(tmp_path)
    create(directory, "a")
    directory.checkpoint({("a", 0): 1})
    late = directory.offset_snapshot({("a", 0): 2})
    if ends_cleanly:
        directory.close({("a", 0): 3}, now_ms=NOW)
    else:
        directory.abandon()
    directory.save_offsets(late)
    assert high_watermarks_in(tmp_path) == {("a", 0): 3 if ends_cleanly else 1}


def test_unchanged_checkpoints_are_not_written_again(tmp_path: Path) -> None:
    disk = CountingDisk()
    directory = open_directory(tmp_path, disk=disk)
    create(directory, "a")
    directory.checkpoint({("a", 0): 1})
    disk.calls.clear()
    directory.checkpoint({("a", 0): 1})
    assert disk.calls["fdatasync"] == 0
    directory.checkpoint({("a", 0): 2})
    assert disk.calls["fdatasync"] == 1


def test_a_failed_checkpoint_write_is_retried(tmp_path: Path) -> None:
    disk = FailingDisk()
    directory = open_directory(tmp_path, disk=disk)
    create(directory, "a")
    directory.checkpoint({("a", 0): 1})
    disk.broken = {"fdatasync"}
    with pytest.raises(OSError, match="error"):
        directory.checkpoint({("a", 0): 2})
    disk.broken.clear()
    directory.checkpoint({("a", 0): 1})
    directory.checkpoint({("a", 0): 2})
    assert high_watermarks_in(tmp_path) == {("a", 0): 2}


@pytest.mark.parametrize("crashes_between", [True, False])
def test_checkpoints_of_a_deleted_log_do_not_affect_a_new_one_with_its_name(
    tmp_path: Path,
    crashes_between: bool,  # noqa: FBT001 - by name
) -> None:
    directory = open_directory(tmp_path)
    create(directory, "a")
    old = directory.log(("a", 0), now_ms=NOW)
    for _ in range(10):
        append(old, bytes(300))
    old.flush()
    old.advance_log_start(8, NOW)
    directory.checkpoint({("a", 0): 10})
    before, late = directory, directory.offset_snapshot({("a", 0): 10})
    directory.delete_log(("a", 0), now_ms=NOW)
    if crashes_between:
        directory.abandon()
        directory = open_directory(tmp_path)
    create(directory, "a")
    before.save_offsets(late)
    append(directory.log(("a", 0), now_ms=NOW), b"x")
    directory.abandon()
    again = open_directory(tmp_path)
    assert again.high_watermark(("a", 0)) == 0
    log = again.log(("a", 0), now_ms=NOW)
    assert log.recovery_point == 0
    assert records_from(log, 0) == [(0, b"x")]


def test_a_deleted_log_is_renamed_and_unlinked_after_the_delay(tmp_path: Path) -> None:
    directory = open_directory(tmp_path)
    create(directory, "a")
    append(directory.log(("a", 0), now_ms=NOW), b"x")
    directory.delete_log(("a", 0), now_ms=NOW)
    assert directory.partitions() == []
    deletion = tmp_path / f"a-0.{TOPIC_ID.hex()}-delete"
    assert deletion.is_dir()
    create(directory, "a")  # the name can be used again
    assert directory.sweep(NOW + 59_999) == 0
    assert directory.sweep(NOW + 60_000) == 1
    assert not deletion.exists()
    assert directory.log(("a", 0), now_ms=NOW).log_end_offset == 0


@pytest.mark.parametrize(
    "work",
    [
        lambda it: it.roll(NOW),
        lambda it: it.advance_log_start(10, NOW),
        lambda it: it.truncate_to(5, NOW),
        lambda it: it.truncate_fully_and_start_at(0, NOW),
    ],
    ids=["roll", "advance", "truncate", "restart"],
)
def test_a_deleted_log_object_cannot_change_a_new_log_with_its_name(
    tmp_path: Path, work: Callable[[Log], None]
) -> None:
    directory = open_directory(tmp_path)
    create(directory, "a")
    old = directory.log(("a", 0), now_ms=NOW)
    old.configuration = LogConfiguration(retention_ms=1, segment_bytes=1000)
    for _ in range(10):
        append(old, bytes(300))
    directory.delete_log(("a", 0), now_ms=NOW)
    create(directory, "a")
    append(directory.log(("a", 0), now_ms=NOW), b"x")
    before = sorted(path.name for path in (tmp_path / "a-0").iterdir())
    assert old.enforce_retention(NOW + 1000) == 0
    with pytest.raises(LogClosed):
        work(old)
    assert sorted(path.name for path in (tmp_path / "a-0").iterdir()) == before


def test_a_log_deleted_before_a_crash_stays_deleted(tmp_path: Path) -> None:
    directory = open_directory(tmp_path)
    create(directory, "a")
    directory.delete_log(("a", 0), now_ms=NOW)
    directory.abandon()
    again = open_directory(tmp_path)
    assert again.partitions() == []
    again.sweep(NOW)
    assert list(tmp_path.glob("*-delete")) == []


class ShortNames(FileSystem):
    """A file system with short names, like eCryptfs and fuse-overlayfs."""

    def __init__(self, letters_max: int) -> None:
        self.letters_max = letters_max

    def rename(self, source: str, target: str) -> None:
        if len(target.rpartition("/")[2]) > self.letters_max:
            raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG), target)
        super().rename(source, target)


@pytest.mark.parametrize("letters", [102, 141, 249])
def test_a_topic_with_the_longest_possible_name_can_be_deleted(
    tmp_path: Path, letters: int
) -> None:
    topic = "t" * letters
    directory = open_directory(tmp_path, disk=ShortNames(max(143, len(f"{topic}-0"))))
    create(directory, topic)
    directory.delete_log((topic, 0), now_ms=NOW)
    assert [it.name.endswith("-delete") for it in tmp_path.glob("ttt*")] == [True]


def test_many_partitions_share_few_open_files(tmp_path: Path) -> None:
    disk = CountingDisk()
    directory = open_directory(tmp_path, disk=disk, files_max=20)
    partitions = [("many", number) for number in range(200)]
    for partition in partitions:
        create(directory, *partition)
    for partition in partitions:
        append(directory.log(partition, now_ms=NOW), b"x")
    for partition in partitions:
        assert records_from(directory.log(partition, now_ms=NOW), 0) == [(0, b"x")]
    assert disk.open_most <= 22
    directory.close({}, now_ms=NOW)
    assert disk.open_now == set()
    assert disk.calls["sync_all"] == 1
    again = open_directory(tmp_path)
    assert records_from(again.log(("many", 199), now_ms=NOW), 0) == [(0, b"x")]


def test_corrupt_text_files_are_replaced(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    directory = open_directory(tmp_path)
    create(directory, "a")
    append(directory.log(("a", 0), now_ms=NOW), b"x")
    directory.close({("a", 0): 1}, now_ms=NOW)
    for name in ("replication-offset-checkpoint", ".kafka_cleanshutdown", "a-0/partition.metadata"):
        (tmp_path / name).write_text("nonsense")
    again = open_directory(tmp_path)
    assert (again.was_clean, again.previous_broker_epoch) == (True, -1)
    assert again.high_watermark(("a", 0)) == 0
    assert again.topic_id(("a", 0)) is None
    assert records_from(again.log(("a", 0), now_ms=NOW), 0) == [(0, b"x")]
    assert "replication-offset-checkpoint" in caplog.text


def test_a_failed_rename_keeps_the_log_and_its_topic_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a new topic with this name would find the old records."""
    directory = open_directory(tmp_path)
    create(directory, "a")
    append(directory.log(("a", 0), now_ms=NOW), b"old")

    def fail(*_: object) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as broken:
        broken.setattr(directory.filesystem, "rename", fail)
        for remove in (
            lambda: directory.delete_log(("a", 0), now_ms=NOW),
            lambda: directory.rename_to_stray(("a", 0)),
        ):
            with pytest.raises(OSError, match="Input/output"):
                remove()
    assert ("a", 0) in directory
    assert directory.topic_id(("a", 0)) == TOPIC_ID
    directory.rename_to_stray(("a", 0))
    assert directory.strays() == [f"a-0.{TOPIC_ID.hex()}-stray"]
    assert ("a", 0) not in directory


def test_partitions_without_meta_properties_raise(
    tmp_path: Path,
) -> None:
    directory = open_directory(tmp_path)
    create(directory, "a")
    directory.abandon()
    (tmp_path / "meta.properties").unlink()
    with pytest.raises(ForeignLogDirectory, match=r"holds partitions \(number: 1, first: a-0\)"):
        open_directory(tmp_path)
    assert not (tmp_path / "meta.properties").exists()
