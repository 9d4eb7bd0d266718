"""Views of a growing file stay valid after close, truncation and deletion."""

import mmap
import os
from contextlib import suppress
from pathlib import Path
from threading import Thread

import pytest

from pykbroker_storage import mapped_file as module
from pykbroker_storage.filesystem import FileSystem
from pykbroker_storage.mapped_file import CLOSED, SMALL_READ_BYTES, MappedFile, OpenFiles
from tests.storage.disks import CountingDisk, without_descriptors

LARGE = bytes(range(256)) * 300


def mapped_file(path: Path, open_files: OpenFiles) -> MappedFile:
    path.touch()
    return MappedFile(str(path), 0, open_files)


def test_small_ranges_beyond_the_map_are_copied_and_large_ones_mapped(tmp_path: Path) -> None:
    disk = CountingDisk()
    file = mapped_file(tmp_path / "a", OpenFiles(disk, 4))
    file.append(bytes(SMALL_READ_BYTES + 1))
    assert bytes(file.view(0, 100)) == bytes(100)
    assert disk.calls["map"] == 0
    assert len(file.view(0, SMALL_READ_BYTES + 1)) == SMALL_READ_BYTES + 1
    assert disk.calls["map"] == 1
    reads = disk.calls["pread"]
    file.view(5, 90)  # within the map now
    file.append(b"tail")
    assert bytes(file.view(SMALL_READ_BYTES + 1, SMALL_READ_BYTES + 5)) == b"tail"
    assert (disk.calls["map"], disk.calls["pread"]) == (1, reads + 1)


def test_a_view_outlives_its_file(tmp_path: Path) -> None:
    file = mapped_file(tmp_path / "a", OpenFiles(CountingDisk(), 4))
    file.append(b"x" * 100_000)
    view = file.view(0, 100_000)
    file.close()
    (tmp_path / "a").unlink()
    assert bytes(view) == b"x" * 100_000


def test_a_view_outlives_the_truncation_of_its_file(tmp_path: Path) -> None:
    file = mapped_file(tmp_path / "a", OpenFiles(CountingDisk(), 4))
    file.append(b"x" * 100_000)
    view = file.view(50_000, 100_000)
    file.truncate(1000)
    file.append(b"y" * 99_000)
    assert bytes(view) == b"x" * 50_000
    assert bytes(file.view(0, 100_000)) == b"x" * 1000 + b"y" * 99_000
    assert (tmp_path / "a").stat().st_size == 100_000
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_without_readers_truncation_copies_nothing(tmp_path: Path) -> None:
    disk = CountingDisk()
    file = mapped_file(tmp_path / "a", OpenFiles(disk, 4))
    file.append(b"x" * 100_000)
    file.view(0, 100_000).release()
    writes = disk.calls["pwrite"]
    file.truncate(1000)
    assert disk.calls["pwrite"] == writes
    assert (tmp_path / "a").stat().st_size == 1000


def test_recently_used_files_are_evicted_last(tmp_path: Path) -> None:
    disk = CountingDisk()
    open_files = OpenFiles(disk, 3)
    files = [mapped_file(tmp_path / str(number), open_files) for number in range(4)]
    for file in files[:3]:
        file.append(b"x")
    files[1].recently_used = files[2].recently_used = False
    opened = disk.calls["open"]
    files[3].append(b"x")  # evicts the idle file 1
    files[0].append(b"x")
    assert disk.calls["open"] == opened + 1
    files[1].append(b"x")
    assert disk.calls["open"] == opened + 2
    assert (len(open_files), len(disk.open_now)) == (3, 3)


def descriptors_into(directory: Path) -> int:
    """Returns the descriptors of this process for files and maps."""
    found = 0
    for link in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # the descriptor of this listing
            found += link.readlink().is_relative_to(directory)
    return found


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="this system has no /proc")
def test_files_and_maps_share_the_descriptor_limit(tmp_path: Path) -> None:
    open_files = OpenFiles(FileSystem(), 8)
    files = [mapped_file(tmp_path / str(number), open_files) for number in range(20)]
    views = []
    for file in files:
        file.append(LARGE)
        views.append(file.view(0, len(LARGE)))
        assert descriptors_into(tmp_path) <= 8
    assert all(view == LARGE for view in views)
    views.clear()
    for file in files:  # new maps are possible again
        assert isinstance(file.view(0, len(LARGE)).obj, mmap.mmap)
        assert descriptors_into(tmp_path) <= 8
    for file in files:
        file.close()
    assert descriptors_into(tmp_path) == 0


def two_files_one_open(directory: Path) -> tuple[MappedFile, MappedFile]:
    filesystem = FileSystem()
    open_files = OpenFiles(filesystem, 100)
    filesystem.release_descriptor = open_files.release_least_recent
    first, second = (mapped_file(directory / name, open_files) for name in "ab")
    first.append(LARGE)
    second.append(LARGE)
    second.release()
    open_files.remove(second)
    return first, second


def test_without_descriptors_the_least_recently_used_file_is_closed(tmp_path: Path) -> None:
    first, second = two_files_one_open(tmp_path)
    with without_descriptors():
        second.append(b"x")
        assert first.descriptor == CLOSED
        first.append(b"y")
        assert second.descriptor == CLOSED


def test_without_descriptors_a_range_is_copied_instead_of_mapped(tmp_path: Path) -> None:
    first, _ = two_files_one_open(tmp_path)
    with without_descriptors():
        assert first.view(0, len(LARGE)) == LARGE
        assert first.descriptor != CLOSED


def test_without_descriptors_a_very_large_range_raises(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "COPIED_VIEW_BYTES_MAX", len(LARGE) - 1)
    first, _ = two_files_one_open(tmp_path)
    with without_descriptors(), pytest.raises(OSError, match="Too many open files"):
        first.view(0, len(LARGE))
    assert first.view(0, len(LARGE)) == LARGE


def test_a_held_descriptor_stays_open_until_it_is_released(tmp_path: Path) -> None:
    open_files = OpenFiles(CountingDisk(), 4)
    file = mapped_file(tmp_path / "a", open_files)
    file.append(b"x")
    with open_files.hold(file) as first:
        with open_files.hold(file) as second:
            file.close()
            assert file.descriptor == CLOSED
        assert first == second
        assert os.pread(first, 1, 0) == b"x"
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(first)


def test_an_open_file_is_flushed_without_another_descriptor(tmp_path: Path) -> None:
    first, second = two_files_one_open(tmp_path)
    with without_descriptors():
        first.flush()
    second.flush()  # opens the file
    assert second.descriptor == CLOSED


def test_flushing_a_deleted_file_raises(tmp_path: Path) -> None:
    """Its bytes are lost although `fsync` succeeds."""
    first, second = two_files_one_open(tmp_path)
    for path in tmp_path.iterdir():
        path.unlink()
    for file in (first, second):
        with pytest.raises(FileNotFoundError):
            file.flush()


def test_a_map_without_views_is_dropped_for_a_new_one(tmp_path: Path) -> None:
    open_files = OpenFiles(FileSystem(), 9)
    files = [mapped_file(tmp_path / str(number), open_files) for number in range(5)]
    for file in files:
        file.append(LARGE)
    for file in files:  # four maps are allowed
        assert isinstance(file.view(0, len(LARGE)).obj, mmap.mmap)
    assert len(open_files) == 5


def test_only_the_owner_of_the_cache_closes_files(tmp_path: Path) -> None:
    """Another thread does not know which descriptors the owner uses."""
    first, _ = two_files_one_open(tmp_path)
    first.recently_used = False
    released = []
    thread = Thread(target=lambda: released.append(first._open_files.release_least_recent()))
    thread.start()
    thread.join()
    assert released == [False]
    assert first.descriptor != CLOSED


def test_only_a_lack_of_descriptors_closes_files(tmp_path: Path) -> None:
    first, _ = two_files_one_open(tmp_path)
    first.recently_used = False
    with pytest.raises(FileNotFoundError):
        first._open_files.filesystem.open_existing(str(tmp_path / "nowhere"))
    assert first.descriptor != CLOSED
