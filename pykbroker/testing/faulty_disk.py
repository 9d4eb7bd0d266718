"""A disk that is full, fails, is slow or cannot be read when a test asks for it."""

from __future__ import annotations

import errno
import os
import time
from typing import TYPE_CHECKING

from pykbroker.testing.active_fault import ActiveFault, lasting
from pykbroker_storage.filesystem import NotCached, VolatileDisk

if TYPE_CHECKING:
    import mmap
    from collections.abc import Callable


class DiskFault(ActiveFault):
    """What becomes of writes or reads, of the files of one topic or of all of them."""

    def __init__(
        self, text: str, befall: Callable[[], None], *, topic: str | None, times: int | None
    ) -> None:
        super().__init__(times)
        self._text = text
        self._befall = befall
        self._topic = topic

    def __str__(self) -> str:
        return self._text if self._topic is None else f"{self._text} (topic {self._topic})"

    def strike(self, path: str, note: Callable[[str], None]) -> None:
        if self.is_due and self._topic in (None, topic_of(path)):
            self.hits += 1
            if self.hits == 1:  # every write of a broker may follow
                note(f"fault: {self} strikes {folder_of(path)} first")
            self._befall()


def disk_full(*, topic: str | None, times: int | None) -> DiskFault:
    return DiskFault("the disk is full", lambda: refuse(errno.ENOSPC), topic=topic, times=times)


def disk_error(*, topic: str | None, times: int | None) -> DiskFault:
    return DiskFault("the disk fails", lambda: refuse(errno.EIO), topic=topic, times=times)


def slow_disk(seconds: float, *, topic: str | None, times: int | None) -> DiskFault:
    text = f"each write takes {lasting(seconds):g} s"
    return DiskFault(text, lambda: time.sleep(seconds), topic=topic, times=times)


def read_error(*, topic: str | None, times: int | None) -> DiskFault:
    text = "the disk cannot be read"
    return DiskFault(text, lambda: refuse(errno.EIO), topic=topic, times=times)


def refuse(number: int) -> None:
    raise OSError(number, os.strerror(number))


def topic_of(path: str) -> str:
    """Of `…/trucks-3/00000000000000000000.log`."""
    return folder_of(path).rpartition("-")[0]


def folder_of(path: str) -> str:
    return path.rpartition("/")[0].rpartition("/")[2]


class FaultyDisk(VolatileDisk):
    """As quick as any while nothing is asked for: the bare calls of `os` are put back."""

    def __init__(self, note: Callable[[str], None]) -> None:
        self._note = note
        """Hears when a fault begins to strike."""
        self._paths: dict[int, str] = {}
        self._faults: list[DiskFault] = []
        self._faults_of_reading: list[DiskFault] = []

    def trouble(self, fault: DiskFault) -> None:
        self._faults.append(fault)
        self.pwrite = self._troubled_write

    def _troubled_write(
        self, descriptor: int, data: bytes | bytearray | memoryview, position: int
    ) -> int:
        self._faults = [it for it in self._faults if it.is_due]
        if not self._faults:
            self.pwrite = VolatileDisk.pwrite
        for fault in self._faults:
            fault.strike(self._paths.get(descriptor, ""), self._note)
        return VolatileDisk.pwrite(descriptor, data, position)

    def trouble_reading(self, fault: DiskFault) -> None:
        """What is mapped already is read without a call: whoever asks for this drops the maps."""
        self._faults_of_reading.append(fault)
        self.pread = self._troubled_read

    def _troubled_read(self, descriptor: int, count: int, position: int) -> bytes:
        self._befall_reading(descriptor)
        return VolatileDisk.pread(descriptor, count, position)

    def pread_cached(self, descriptor: int, count: int, position: int) -> bytearray | None:
        if self._faults_of_reading:
            raise NotCached  # a read that waits for the disk is troubled
        return super().pread_cached(descriptor, count, position)

    def is_cached(self, descriptor: int, start: int, end: int) -> bool | None:
        return False if self._faults_of_reading else super().is_cached(descriptor, start, end)

    def map(self, descriptor: int, size_bytes: int) -> mmap.mmap:
        self._befall_reading(descriptor)
        return super().map(descriptor, size_bytes)

    def _befall_reading(self, descriptor: int) -> None:
        if self._faults_of_reading:
            self._faults_of_reading = [it for it in self._faults_of_reading if it.is_due]
            if not self._faults_of_reading:
                self.pread = VolatileDisk.pread
        for fault in self._faults_of_reading:
            fault.strike(self._paths.get(descriptor, ""), self._note)

    def open(self, path: str) -> int:
        return self._known(super().open(path), path)

    def open_existing(self, path: str) -> int:
        return self._known(super().open_existing(path), path)

    def _known(self, descriptor: int, path: str) -> int:
        self._paths[descriptor] = path  # a number that is given again belongs to the later file
        return descriptor
