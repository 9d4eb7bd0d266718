"""Reads that do not wait for the disk, and read views for threads."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from pykbroker_storage.batch_scan import CorruptLog
from pykbroker_storage.configuration import CleanupPolicy
from pykbroker_storage.filesystem import LOCAL_DISK, FileSystem, NotCached
from pykbroker_storage.lazy_verification import LazyVerification
from pykbroker_storage.log import LogClosed, OffsetOutOfRange
from pykbroker_storage.mapped_file import RECENT_BYTES, SMALL_READ_BYTES, MappedFile, OpenFiles
from pykbroker_storage.segment import Segment
from pykbroker_storage.transaction_index import TransactionIndex
from tests.storage.batches import NOW, ONE_SEGMENT, append, open_log, records_from
from tests.storage.compaction_rounds import compact
from tests.storage.disks import ColdDisk, CountingDisk

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pykbroker_storage.log import Log
    from pykbroker_storage.read_view import ReadView

EVERYTHING = range(1 << 40)
LARGE = SMALL_READ_BYTES + 1


def filled(directory: Path, *, disk: FileSystem = LOCAL_DISK, batches: int = 30) -> Log:
    """Creates several segments and opens them again after a clean shutdown."""
    with_records = open_log(directory, disk=disk)
    for number in range(batches):
        append(with_records, b"%d" % number * 20, timestamp=NOW + number)
    with_records.close()
    return open_log(directory, was_clean=True, disk=disk)


def everything(view: ReadView, offset: int = 0) -> list[bytes]:
    found = []
    while (piece := view.read(offset, bytes_max=400, end_offset=1 << 40)) is not None:
        found.append(bytes(piece.view))
        offset = piece.next_offset
    return found


# --- reads that must not block


@pytest.mark.parametrize("size", [100, LARGE])
def test_nonblocking_reads_of_uncached_bytes_raise_not_cached(tmp_path: Path, size: int) -> None:
    disk = ColdDisk()
    open_files = OpenFiles(disk, 4)
    (tmp_path / "a").touch()
    file = MappedFile(str(tmp_path / "a"), 0, open_files)
    file.append(b"x" * 2 * LARGE)
    open_files.may_block = False
    with pytest.raises(NotCached):
        file.view(10, 10 + size)
    disk.cached.append(range(10 + size))
    assert bytes(file.view(10, 10 + size)) == b"x" * size
    assert not disk.waited


def test_one_uncached_page_raises_not_cached(tmp_path: Path) -> None:
    disk = ColdDisk()
    open_files = OpenFiles(disk, 4)
    (tmp_path / "a").touch()
    file = MappedFile(str(tmp_path / "a"), 0, open_files)
    file.append(bytes(10 * LARGE))
    open_files.may_block = False
    disk.cached += [range(4 * LARGE), range(6 * LARGE, 10 * LARGE)]
    with pytest.raises(NotCached):
        file.view(0, 10 * LARGE)


@pytest.mark.parametrize("size", [100, LARGE])
def test_a_truncated_file_is_not_read_through_the_map(tmp_path: Path, size: int) -> None:
    open_files = OpenFiles(LOCAL_DISK, 4)
    (tmp_path / "a").touch()
    file = MappedFile(str(tmp_path / "a"), 0, open_files)
    file.append(bytes(4 * LARGE))
    file.view(0, 4 * LARGE)
    os.truncate(tmp_path / "a", 4096)
    open_files.may_block = False
    with pytest.raises(NotCached):
        file.view(4 * LARGE - size, 4 * LARGE)


def test_without_cache_information_recently_appended_bytes_are_read(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"old")
    open_files = OpenFiles(ColdDisk(can_tell=False), 4)
    file = MappedFile(str(tmp_path / "a"), 3, open_files)
    file.append(b"new" * 100_000)
    open_files.may_block = False
    assert bytes(file.view(3, 6)) == b"new"
    assert len(file.view(3, 300_003)) == 300_000
    with pytest.raises(NotCached):
        file.view(2, 6)
    file.append(bytes(RECENT_BYTES))
    with pytest.raises(NotCached):
        file.view(3, 6)


def test_nonblocking_reads_neither_load_indexes_nor_verify(
    tmp_path: Path,
) -> None:
    log = filled(tmp_path)
    with pytest.raises(NotCached):
        log.read_cached(0, bytes_max=100, end_offset=30)
    view = log.read_view(0)
    view.use(everything)
    assert log.merge(view)
    found = log.read_cached(0, bytes_max=100, end_offset=30)
    assert found is not None
    assert found.next_offset == 1


# --- read views


def test_a_thread_verifies_old_batches_without_reading_them_many_times(tmp_path: Path) -> None:
    with_records = open_log(tmp_path, ONE_SEGMENT)
    for _ in range(1_000):
        append(with_records, b"small")
    with_records.close()
    disk = CountingDisk()
    log = open_log(tmp_path, ONE_SEGMENT, was_clean=True, disk=disk)
    disk.bytes_read = 0
    found = log.read_view(0).use(lambda it: it.read(0, bytes_max=1 << 20, end_offset=1_000))
    assert found is not None
    assert found.next_offset == 1_000
    assert disk.bytes_read < 3 * log.size_bytes


def test_a_read_view_reads_what_the_log_would_have_read(tmp_path: Path) -> None:
    log = filled(tmp_path)
    for offset in range(30):
        for bytes_max in (1, 150, 400, 10_000):
            view = log.read_view(offset)

            def read(it: Any, offset: int = offset, bytes_max: int = bytes_max) -> Any:
                return it.read(offset, bytes_max=bytes_max, end_offset=25)

            found = view.use(read)
            expected = log.read(offset, bytes_max=bytes_max, end_offset=25)
            assert found == expected, (offset, bytes_max)


def test_a_read_view_does_not_include_later_appends(tmp_path: Path) -> None:
    log = open_log(tmp_path, ONE_SEGMENT)
    append(log, b"before")
    view = log.read_view()
    append(log, b"after" * 100)
    assert sum(map(len, view.use(everything))) < 100
    assert log.merge(view)


def test_a_read_view_works_on_a_thread_during_appends(tmp_path: Path) -> None:
    log = open_log(tmp_path, ONE_SEGMENT)
    for number in range(50):
        append(log, b"%d" % number, timestamp=NOW + number)
    problems: list[BaseException] = []

    def read(view: ReadView) -> None:
        try:
            for number in range(50):
                found = view.offset_at_timestamp(NOW + number)
                assert found is not None
                assert found.offset == number
        except BaseException as problem:  # noqa: BLE001 - whatever it is, the test fails
            problems.append(problem)

    thread = threading.Thread(target=log.read_view().use, args=(read,))
    thread.start()
    while thread.is_alive():
        append(log, b"more" * 30, timestamp=NOW)
    thread.join()
    assert not problems


@pytest.mark.parametrize("change", ["truncate", "restart", "delete", "compact", "close"])
def test_a_read_view_is_invalid_after_segments_were_replaced(tmp_path: Path, change: str) -> None:
    log = filled(tmp_path)
    view = log.read_view(0)
    match change:
        case "truncate":
            log.truncate_to(20, NOW)
        case "restart":
            log.truncate_fully_and_start_at(5, NOW)
        case "delete":
            log.advance_log_start(25, NOW)
        case "compact":
            log.configuration = replace(
                log.configuration, cleanup_policy=frozenset({CleanupPolicy.COMPACT})
            )
            compact(log)
        case _:
            log.close()
    with suppress(FileNotFoundError, CorruptLog, OSError):
        view.use(everything)
    assert not log.merge(view)


@pytest.mark.parametrize("name", ["lazy_verification", "transaction_index_loaded"])
def test_a_sealed_segment_can_be_copied_while_its_owner_drops_indexes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    segment = filled(tmp_path).segments()[0]
    known = {
        "lazy_verification": LazyVerification(10),
        "transaction_index_loaded": TransactionIndex(),
    }[name]
    looks = iter([known])
    monkeypatch.setattr(Segment, name, SetOnly(lambda: next(looks, None)))
    segment.copy_for_reading(OpenFiles(LOCAL_DISK, 4))


class SetOnly(property):
    """An attribute whose value another thread sets."""

    def __init__(self, look: Callable[[], object]) -> None:
        super().__init__(lambda _: look(), lambda *_: None)


def test_a_read_view_of_a_closed_log_or_an_invalid_offset_raises(tmp_path: Path) -> None:
    log = filled(tmp_path)
    with pytest.raises(OffsetOutOfRange):
        log.read_view(31)
    log.close()
    with pytest.raises(LogClosed):
        log.read_view(0)


def test_a_read_view_holds_few_files_open_and_closes_them(tmp_path: Path) -> None:
    disk = CountingDisk()
    log = filled(tmp_path, disk=disk)
    before = len(disk.open_now)
    disk.open_most = before
    log.read_view().use(everything)
    assert len(disk.open_now) == before
    assert disk.open_most <= before + 3  # two segments, and an index while it is loaded


# --- a failing disk


def test_unreadable_bytes_raise_and_others_are_returned(tmp_path: Path) -> None:
    disk = ColdDisk()
    log = filled(tmp_path, disk=disk)
    disk.broken.append(range(300, 500))
    with pytest.raises(OSError, match="Input/output error"):
        log.read_view().use(everything)
    segment = log.segments()[1].base_offset
    disk.broken.clear()
    assert log.read_view(segment).use(lambda it: everything(it, segment))


def test_a_segment_truncated_by_another_process_raises(tmp_path: Path) -> None:
    log = filled(tmp_path)
    os.truncate(log.segments()[0].path(".log"), 200)
    with pytest.raises(OSError, match="file ends at byte"):
        log.read_view().use(everything)


# --- counting bytes


def test_bytes_between_offsets_are_counted_without_reading_them(tmp_path: Path) -> None:
    disk = ColdDisk()
    log = open_log(tmp_path, ONE_SEGMENT, disk=disk)
    for _ in range(3):
        append(log, b"x" * 100)
    disk.waited.clear()
    size = log.size_bytes
    assert log.bytes_between(0, 3) == size
    assert log.bytes_between(3, 3) == 0
    assert log.bytes_between(1, 2) == size // 3
    assert not disk.waited


def test_bytes_of_several_segments_are_not_counted(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for _ in range(30):
        append(log, b"x" * 100)
    assert log.segment_count > 1
    assert log.bytes_between(0, 30) is None
    assert len(records_from(log, 0)) == 30
