"""A file system whose writes and reads fail or block while a test has set a disk fault."""

from __future__ import annotations

import errno
import os
import time
from typing import TYPE_CHECKING

from pykbroker.testing.active_fault import ActiveFault, valid_duration
from pykbroker_storage.filesystem import NotCached, VolatileDisk

if TYPE_CHECKING:
    import mmap
    from collections.abc import Callable


class DiskFault(ActiveFault):
    """Fails or blocks the writes or reads of one topic's files, or of all files."""

    def __init__(
        self, text: str, effect: Callable[[], None], *, topic: str | None, times: int | None
    ) -> None:
        super().__init__(times)
        self._text = text
        self._effect = effect
        self._topic = topic

    def __str__(self) -> str:
        return self._text if self._topic is None else f"{self._text} (topic {self._topic})"

    def apply(self, path: str, note: Callable[[str], None]) -> None:
        if self.is_due and self._topic in (None, topic_of(path)):
            self.hits += 1
            if self.hits == 1:  # later hits are not noted: there can be one per write
                note(f"fault: {self}; first hit in {folder_of(path)}")
            self._effect()


def disk_full(*, topic: str | None, times: int | None) -> DiskFault:
    return DiskFault("disk full", lambda: fail(errno.ENOSPC), topic=topic, times=times)


def disk_error(*, topic: str | None, times: int | None) -> DiskFault:
    return DiskFault("disk write error", lambda: fail(errno.EIO), topic=topic, times=times)


def slow_disk(seconds: float, *, topic: str | None, times: int | None) -> DiskFault:
    text = f"slow disk, {valid_duration(seconds):g} s per write"
    return DiskFault(text, lambda: time.sleep(seconds), topic=topic, times=times)


def read_error(*, topic: str | None, times: int | None) -> DiskFault:
    return DiskFault("disk read error", lambda: fail(errno.EIO), topic=topic, times=times)


def fail(number: int) -> None:
    raise OSError(number, os.strerror(number))


def topic_of(path: str) -> str:
    """The topic of `…/trucks-3/00000000000000000000.log`."""
    return folder_of(path).rpartition("-")[0]


def folder_of(path: str) -> str:
    return path.rpartition("/")[0].rpartition("/")[2]


class FaultyDisk(VolatileDisk):
    """Costs nothing without a fault: 'pwrite' and 'pread' are then the plain functions of 'os'."""

    def __init__(self, note: Callable[[str], None]) -> None:
        self._note = note
        """Called with a line for the timeline when a fault applies for the first time."""
        self._paths: dict[int, str] = {}
        self._write_faults: list[DiskFault] = []
        self._read_faults: list[DiskFault] = []

    def fail_writes(self, fault: DiskFault) -> None:
        self._write_faults.append(fault)
        self.pwrite = self._faulty_write

    def _faulty_write(
        self, descriptor: int, data: bytes | bytearray | memoryview, position: int
    ) -> int:
        self._write_faults = [it for it in self._write_faults if it.is_due]
        if not self._write_faults:
            self.pwrite = VolatileDisk.pwrite
        for fault in self._write_faults:
            fault.apply(self._paths.get(descriptor, ""), self._note)
        return VolatileDisk.pwrite(descriptor, data, position)

    def fail_reads(self, fault: DiskFault) -> None:
        """Fails reads. The caller drops the maps, because mapped reads make no system call."""
        self._read_faults.append(fault)
        self.pread = self._faulty_read

    def _faulty_read(self, descriptor: int, count: int, position: int) -> bytes:
        self._apply_read_faults(descriptor)
        return VolatileDisk.pread(descriptor, count, position)

    def pread_cached(self, descriptor: int, count: int, position: int) -> bytearray | None:
        if self._read_faults:
            raise NotCached  # the caller then uses pread, which fails
        return super().pread_cached(descriptor, count, position)

    def is_cached(self, descriptor: int, start: int, end: int) -> bool | None:
        return False if self._read_faults else super().is_cached(descriptor, start, end)

    def map(self, descriptor: int, size_bytes: int) -> mmap.mmap:
        self._apply_read_faults(descriptor)
        return super().map(descriptor, size_bytes)

    def _apply_read_faults(self, descriptor: int) -> None:
        if self._read_faults:
            self._read_faults = [it for it in self._read_faults if it.is_due]
            if not self._read_faults:
                self.pread = VolatileDisk.pread
        for fault in self._read_faults:
            fault.apply(self._paths.get(descriptor, ""), self._note)

    def open(self, path: str) -> int:
        return self._opened(super().open(path), path)

    def open_existing(self, path: str) -> int:
        return self._opened(super().open_existing(path), path)

    def _opened(self, descriptor: int, path: str) -> int:
        self._paths[descriptor] = path  # replaces the path of a reused descriptor number
        return descriptor
