"""Disks that count calls, fill up, fail, or lose unflushed bytes."""

import errno
import os
import random
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pykbroker_storage.filesystem import FileSystem, NotCached

PAGE_BYTES = 4096


@contextmanager
def without_descriptors() -> Iterator[None]:
    """Makes every call that needs a file descriptor fail in this process."""
    import resource  # does not exist on Windows

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = [os.open(os.devnull, os.O_RDONLY)]
    resource.setrlimit(resource.RLIMIT_NOFILE, (taken[0] + 1, hard))
    try:
        with suppress(OSError):
            while True:
                taken.append(os.dup(taken[0]))
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for descriptor in taken:
            os.close(descriptor)


class CountingDisk(FileSystem):
    """Counts calls, bytes read and open files."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.bytes_read = 0
        self.open_now: set[int] = set()
        self.open_most = 0

        def pread(descriptor: int, count: int, position: int) -> bytes:
            self.calls["pread"] += 1
            data = os.pread(descriptor, count, position)
            self.bytes_read += len(data)
            return data

        def close(descriptor: int) -> None:
            self.open_now.remove(descriptor)
            os.close(descriptor)

        def pwrite(descriptor: int, data: Any, position: int) -> int:
            self.calls["pwrite"] += 1
            return os.pwrite(descriptor, data, position)

        def fdatasync(descriptor: int) -> None:
            self.calls["fdatasync"] += 1
            os.fdatasync(descriptor)

        self.pread = pread
        self.pwrite = pwrite
        self.fdatasync = fdatasync
        self.close = close

    def open(self, path: str) -> int:
        return self._opened(super().open(path))

    def open_existing(self, path: str) -> int:
        return self._opened(super().open_existing(path))

    def map(self, descriptor: int, size_bytes: int) -> Any:
        self.calls["map"] += 1
        return super().map(descriptor, size_bytes)

    def sync_all(self) -> None:
        self.calls["sync_all"] += 1

    def _opened(self, descriptor: int) -> int:
        self.calls["open"] += 1
        self.open_now.add(descriptor)
        self.open_most = max(self.open_most, len(self.open_now))
        return descriptor


class SmallDisk(FileSystem):
    """Has `room_bytes` left; the last write is partial, then writes fail with ENOSPC."""

    def __init__(self, room_bytes: int) -> None:
        self.room_bytes = room_bytes

        def pwrite(descriptor: int, data: Any, position: int) -> int:
            if data and not self.room_bytes:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            fits = memoryview(data)[: self.room_bytes]
            self.room_bytes -= len(fits)
            return os.pwrite(descriptor, fits, position)

        self.pwrite = pwrite


class UnreadableMaps(FileSystem):
    """Mapped bytes cannot be read: the map is beyond the end of its file, like a bad sector."""

    def map(self, descriptor: int, size_bytes: int) -> Any:  # noqa: ARG002 - not the real file
        with tempfile.TemporaryFile() as file:
            file.truncate(size_bytes)
            mapped = super().map(file.fileno(), size_bytes)
            file.truncate(0)
            return mapped


class ColdDisk(FileSystem):
    """Only the ranges in `cached` are in memory; ranges in `broken` cannot be read at all."""

    def __init__(self, *, can_tell: bool = True) -> None:
        self.reports_cached = True
        self.can_tell = can_tell
        self.cached: list[range] = []
        self.broken: list[range] = []
        self.waited: list[tuple[int, int]] = []
        """Reads that waited for the disk: position and size."""

        def pread(descriptor: int, count: int, position: int) -> bytes:
            self.waited.append((position, count))
            if any(position < it.stop and it.start < position + count for it in self.broken):
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return os.pread(descriptor, count, position)

        self.pread = pread

    def pread_cached(self, descriptor: int, count: int, position: int) -> bytearray | None:
        if not self.can_tell:
            return None
        data = os.pread(descriptor, count, position)
        last = position + count - 1
        if len(data) < count or not any(position in it and last in it for it in self.cached):
            raise NotCached
        return bytearray(data)

    def is_cached(self, descriptor: int, start: int, end: int) -> bool | None:
        try:
            for position in (*range(start, end, 4096), end - 1):
                if self.pread_cached(descriptor, 1, position) is None:
                    return None
        except NotCached:
            return False
        return True


class FailingDisk(FileSystem):
    """Raises `EIO` in the calls listed in `broken`."""

    def __init__(self) -> None:
        self.broken: set[str] = set()
        self.calls: Counter[str] = Counter()

        def fdatasync(descriptor: int) -> None:
            self._may("fdatasync")
            os.fdatasync(descriptor)

        def pwrite(descriptor: int, data: Any, position: int) -> int:
            self._may("pwrite")
            return os.pwrite(descriptor, data, position)

        def ftruncate(descriptor: int, size: int) -> None:
            self._may("ftruncate")
            os.ftruncate(descriptor, size)

        self.fdatasync = fdatasync
        self.pwrite = pwrite
        self.ftruncate = ftruncate

    def sync_directory(self, path: str) -> None:
        self._may("sync_directory")
        super().sync_directory(path)

    def _may(self, call: str) -> None:
        self.calls[call] += 1
        if call in self.broken:
            raise OSError(errno.EIO, os.strerror(errno.EIO))


@dataclass
class _Durable:
    content: bytes = b""
    pages: set[int] = field(default_factory=set)  # written but not flushed


class PowerCutDisk(FileSystem):
    """After `cut_power`, each page that was not flushed is lost or kept at random (by seed).

    Names are durable at once, because the content of files is what is tested.
    """

    def __init__(self) -> None:
        self._files: dict[str, _Durable] = {}
        self._paths: dict[int, str] = {}

        def pwrite(descriptor: int, data: Any, position: int) -> int:
            written = os.pwrite(descriptor, data, position)
            first, last = position // PAGE_BYTES, (position + max(written, 1) - 1) // PAGE_BYTES
            self._file(descriptor).pages.update(range(first, last + 1))
            return written

        def fdatasync(descriptor: int) -> None:
            self._files[self._paths[descriptor]] = _Durable(
                Path(self._paths[descriptor]).read_bytes()
            )

        def ftruncate(descriptor: int, size: int) -> None:
            os.ftruncate(descriptor, size)

        def close(descriptor: int) -> None:
            del self._paths[descriptor]
            os.close(descriptor)

        self.pwrite = pwrite
        self.fdatasync = fdatasync
        self.ftruncate = ftruncate
        self.close = close

    def open(self, path: str) -> int:
        return self._opened(super().open(path), path)

    def open_existing(self, path: str) -> int:
        return self._opened(super().open_existing(path), path)

    def rename(self, source: str, target: str) -> None:
        super().rename(source, target)
        if source in self._files:
            self._files[target] = self._files.pop(source)

    def unlink(self, path: str) -> None:
        super().unlink(path)
        self._files.pop(path, None)

    def cut_power(self, chance: random.Random) -> None:
        """Rewrites every file as it may be after the power loss."""
        for name, durable in self._files.items():
            path = Path(name)
            if durable.pages and path.exists():
                path.write_bytes(self._survivor(path.read_bytes(), durable, chance))
        self._files.clear()

    @staticmethod
    def _survivor(latest: bytes, durable: _Durable, chance: random.Random) -> bytes:
        size = chance.choice((len(durable.content), len(latest)))
        found = bytearray(durable.content[:size].ljust(size, b"\0"))
        for page in sorted(durable.pages):
            start = page * PAGE_BYTES
            if chance.random() < 0.5 and start < size:
                piece = latest[start : min(start + PAGE_BYTES, size)]
                found[start : start + len(piece)] = piece
        return bytes(found)

    def _opened(self, descriptor: int, path: str) -> int:
        self._paths[descriptor] = path
        self._files.setdefault(path, _Durable(Path(path).read_bytes()))
        return descriptor

    def _file(self, descriptor: int) -> _Durable:
        return self._files[self._paths[descriptor]]
