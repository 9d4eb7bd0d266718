"""A disk that loses unflushed data in a power loss, and fails on request."""

# Paths are plain strings, as in the seam itself.
# ruff: noqa: PTH110, PTH112, PTH116

from __future__ import annotations

import errno
import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pykbroker.testing.simulation.undo_journal import Journal
from pykbroker_storage.filesystem import DIRECTORY_MODE, FileSystem

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

PAGE_BYTES: Final = 4096
SECTOR_BYTES: Final = 512
TEARS: Final = 0.3
"""Probability that a power loss tears the last written page."""
SIZE_BYTES: Final = 1 << 40


@dataclass(slots=True)
class Unflushed:
    """The durable content of a file, where it differs from the content that is read."""

    size_bytes: int
    pages: dict[int, bytes] = field(default_factory=dict)
    last_page: int = 0
    dropped: set[int] = field(default_factory=set)
    """Pages of a failed fsync: Linux marks them clean, so the next fsync skips them."""

    def flushed(self, size_bytes: int) -> Unflushed | None:
        """Returns the state after an fsync; None if everything is durable."""
        if not self.dropped:
            return None
        kept = {number: self.pages[number] for number in self.dropped}
        return Unflushed(size_bytes, kept, self.last_page, self.dropped)


class CrashingDisk(FileSystem):
    """Stores files in a real directory and tracks which content would survive a power loss.

    As with ext4 and xfs, directory changes become durable in order: a power loss keeps the first
    few renames and deletions since the last directory fsync. Pages of a file become durable in any
    order, and one page can be torn. As in Linux, pages of a failed fsync count as clean until they
    are written again. Modification times are virtual.

    Names and content are independent. A renamed file can be empty, a file can be truncated although
    later files exist (delayed allocation), or keep its size with zeros at the end.
    """

    reports_cached = False
    """The page cache of the real machine must not influence a run."""

    def __init__(self, root: Path, chance: random.Random, now_ms: Callable[[], int]) -> None:
        self.root = root / "disk"
        self.root.mkdir()
        self._journal = Journal(str(root / "undone"))
        self._chance = chance
        self._now_ms = now_ms
        self._unflushed: dict[int, Unflushed] = {}
        self._modified_ms: dict[int, int] = {}
        self._refusal: int | None = None
        self.pread = os.pread
        self.pwrite = self._pwrite
        self.ftruncate = self._ftruncate
        self.fdatasync = self._fdatasync
        self.close = os.close

    # --- for tests

    def refuse(self, number: int | None) -> None:
        """Fails every change with this errno, until called with None."""
        self._refusal = number

    def wipe(self) -> None:
        """Removes all files."""
        self.sync_all()
        self._modified_ms.clear()
        shutil.rmtree(self.root)
        self.root.mkdir()

    def cut_power(self) -> str:
        """Loses unflushed changes and returns a description of the loss."""
        names = self._journal.crash(self._chance)
        torn = [self._tear(path) for path in sorted(self.root.rglob("*")) if path.is_file()]
        self._unflushed.clear()
        return f"lost directory changes: {names}, files with lost unflushed pages: {sum(torn)}"

    def _tear(self, path: Path) -> bool:
        unflushed = self._unflushed.get(path.stat().st_ino)
        if unflushed is None:
            return False
        latest = path.read_bytes()
        found = self._survivor(latest, unflushed)
        modified_ms = self._modified(path.stat().st_ino)
        # A new file: the killed broker may still have the old one mapped.
        beside = path.with_name(path.name + ".torn")
        beside.write_bytes(found)
        beside.replace(path)
        self._modified_ms[path.stat().st_ino] = modified_ms
        return found != latest

    def _survivor(self, latest: bytes, unflushed: Unflushed) -> bytes:
        size = self._chance.choice(
            (unflushed.size_bytes, len(latest), self._allocated(latest, unflushed))
        )
        found = bytearray(latest[:size].ljust(size, b"\0"))
        for number in sorted(unflushed.pages):
            if self._chance.random() < 0.5:
                before = unflushed.pages[number].ljust(PAGE_BYTES, b"\0")
                start = number * PAGE_BYTES + self._kept_of(number, unflushed)
                end = min((number + 1) * PAGE_BYTES, size)
                if start < end:
                    found[start:end] = before[start - number * PAGE_BYTES :][: end - start]
        return bytes(found)

    def _allocated(self, latest: bytes, unflushed: Unflushed) -> int:
        """A size between the flushed and the current one, from a writeback by the kernel."""
        least, most = sorted((unflushed.size_bytes, len(latest)))
        return self._chance.randint(least, most)

    def _kept_of(self, number: int, unflushed: Unflushed) -> int:
        """Number of new bytes of a torn page that became durable."""
        if number != unflushed.last_page or self._chance.random() > TEARS:
            return 0
        return self._chance.randrange(0, PAGE_BYTES, SECTOR_BYTES)

    # --- files

    def open(self, path: str) -> int:
        is_new = not os.path.exists(path)
        if is_new:
            self._may_change()
        descriptor = super().open(path)
        if is_new:
            number = os.fstat(descriptor).st_ino
            self._unflushed[number] = Unflushed(0)
            self._modified_ms[number] = self._now_ms()
            self._journal.made(path)
        return descriptor

    def _pwrite(self, descriptor: int, data: bytes | bytearray | memoryview, position: int) -> int:
        self._may_change()
        first, last = position // PAGE_BYTES, (position + max(len(data), 1) - 1) // PAGE_BYTES
        unflushed = self._keep_flushed(descriptor, range(first, last + 1))
        unflushed.last_page = last
        return os.pwrite(descriptor, data, position)

    def _ftruncate(self, descriptor: int, size_bytes: int) -> None:
        self._may_change()
        now = os.fstat(descriptor).st_size
        first, last = min(now, size_bytes) // PAGE_BYTES, max(now, size_bytes) // PAGE_BYTES
        self._keep_flushed(descriptor, range(first, last + 1))
        os.ftruncate(descriptor, size_bytes)

    def _keep_flushed(self, descriptor: int, pages: range) -> Unflushed:
        """Saves the flushed content of pages before they change."""
        status = os.fstat(descriptor)
        self._modified_ms[status.st_ino] = self._now_ms()
        unflushed = self._unflushed.get(status.st_ino)
        if unflushed is None:
            unflushed = self._unflushed[status.st_ino] = Unflushed(status.st_size)
        unflushed.dropped.difference_update(pages)
        for number in pages:
            if number not in unflushed.pages:
                start = number * PAGE_BYTES
                count = min(PAGE_BYTES, max(0, unflushed.size_bytes - start))
                unflushed.pages[number] = os.pread(descriptor, count, start) if count else b""
        return unflushed

    def _fdatasync(self, descriptor: int) -> None:
        status = os.fstat(descriptor)
        unflushed = self._unflushed.get(status.st_ino)
        if unflushed is None:
            self._may_change()
            return
        if self._refusal is not None:
            unflushed.dropped.update(unflushed.pages)
        self._may_change()
        left = unflushed.flushed(status.st_size)
        if left is None:
            del self._unflushed[status.st_ino]
        else:
            self._unflushed[status.st_ino] = left

    def size_and_age(self, path: str) -> tuple[int, int]:
        status = os.stat(path)
        return status.st_size, self._modified(status.st_ino)

    def set_modified(self, path: str, modified_ms: int) -> None:
        self._modified_ms[os.stat(path).st_ino] = modified_ms

    def _modified(self, number: int) -> int:
        return self._modified_ms.get(number, self._now_ms())

    # --- names

    def list_directory(self, path: str) -> list[str]:
        return sorted(super().list_directory(path))

    def make_directory(self, path: str, mode: int = DIRECTORY_MODE) -> None:
        if os.path.isdir(path):
            return
        missing = [it for it in (Path(path), *Path(path).parents) if not it.exists()]
        self._may_change()
        for directory in reversed(missing):
            directory.mkdir(mode)
            self._journal.made_directory(str(directory))

    def remove_directory(self, path: str) -> None:
        self._may_change()
        super().remove_directory(path)
        self._journal.removed_directory(path)

    def rename(self, source: str, target: str) -> None:
        self._may_change()
        self._journal.rename(source, target)

    def unlink(self, path: str) -> None:
        self._may_change()
        self._journal.unlink(path)

    def sync_directory(self, path: str) -> None:
        self._may_change()
        if not os.path.isdir(path):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        self._journal.commit()

    def sync_all(self) -> None:
        self._may_change()
        self._journal.commit()
        self._unflushed.clear()

    def space_bytes(self, path: str) -> tuple[int, int]:
        del path
        return SIZE_BYTES, SIZE_BYTES

    def _may_change(self) -> None:
        if self._refusal is not None:
            raise OSError(self._refusal, os.strerror(self._refusal))
