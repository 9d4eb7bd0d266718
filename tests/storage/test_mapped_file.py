"""Views of a growing file stay what they were, whoever closes, cuts or deletes it."""

from pathlib import Path

from pykbroker_storage.mapped_file import SMALL_READ_BYTES, MappedFile, OpenFiles
from tests.storage.disks import CountingDisk


def mapped_file(path: Path, open_files: OpenFiles) -> MappedFile:
    path.touch()
    return MappedFile(str(path), 0, open_files)


def test_a_small_new_end_is_copied_and_a_large_one_mapped(tmp_path: Path) -> None:
    disk = CountingDisk()
    file = mapped_file(tmp_path / "a", OpenFiles(disk, 4))
    file.append(bytes(SMALL_READ_BYTES + 1))
    assert bytes(file.view(0, 100)) == bytes(100)
    assert disk.calls["map"] == 0
    assert len(file.view(0, SMALL_READ_BYTES + 1)) == SMALL_READ_BYTES + 1
    assert disk.calls["map"] == 1
    reads = disk.calls["pread"]
    file.view(5, 90)  # within the map by now
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


def test_files_in_use_stay_open_longer_than_idle_ones(tmp_path: Path) -> None:
    disk = CountingDisk()
    open_files = OpenFiles(disk, 3)
    files = [mapped_file(tmp_path / str(number), open_files) for number in range(4)]
    for file in files[:3]:
        file.append(b"x")
    files[1].recently_used = files[2].recently_used = False
    opened = disk.calls["open"]
    files[3].append(b"x")  # sends away the idle file 1
    files[0].append(b"x")
    assert disk.calls["open"] == opened + 1
    files[1].append(b"x")
    assert disk.calls["open"] == opened + 2
    assert (len(open_files), len(disk.open_now)) == (3, 3)
