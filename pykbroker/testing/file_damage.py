"""Damages segment files: flips a byte, or truncates and zeroes what a crash left unflushed.

A file that shares its bytes with copies (`fork`, `snapshot`, `save`) is first copied itself.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from pykbroker.testing.active_fault import ActiveFault, FaultMatchedNothing
from pykbroker_storage.batch_scan import first_batch

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator

    from pykbroker.broker import Broker
    from pykbroker_storage.log import Log
    from pykbroker_storage.segment import Segment

PAGE_BYTES: Final = 4096
IDENTITY_BYTES: Final = 21
"""Base offset, length, leader epoch, magic and checksum: together they identify a batch."""
_BOUNDS = Struct(">qi")
_PREFIX_BYTES: Final = 12


class FlippedByte(ActiveFault):
    """Inverts the last byte of a stored batch, and restores it when the fault ends."""

    def __init__(self, topic: str, partition: int, offset: int) -> None:
        super().__init__(None)
        self._where = f"{topic}-{partition}, offset {offset}"
        self._path = Path()
        self._start = self._last = 0
        self._identity = b""

    def __str__(self) -> str:
        return f"flipped byte ({self._where})"

    def apply(self, log: Log, offset: int) -> None:
        for segment in log.segments():
            if offset < segment.next_offset and segment.size_bytes:
                return self._flip_in(segment, offset)
        raise FaultMatchedNothing(f"flip_byte: no record at {self._where}")

    def _flip_in(self, segment: Segment, offset: int) -> None:
        batch = first_batch(segment.file, segment.position_of(offset), reaching=offset)
        if batch is None or offset < segment.base_offset:
            raise FaultMatchedNothing(f"flip_byte: no record at {self._where}")
        self._path = Path(segment.file.path)
        self._start, self._last = batch.position, batch.end - 1
        self._identity = segment.file.read(self._start, self._start + IDENTITY_BYTES)
        unshare(self._path)
        segment.file.release()
        flip(self._path, self._last)
        segment.verify_lazily()  # like after a start: batches are verified at their next read
        self.hits += 1

    def end(self) -> None:
        """Restores the byte, unless the batch has been deleted or replaced."""
        if not self.is_over:
            super().end()
            with suppress(OSError):
                self._restore()

    def _restore(self) -> None:
        with self._path.open("rb") as file:
            file.seek(self._start)
            exists = file.read(IDENTITY_BYTES) == self._identity
        if exists and self._path.stat().st_size > self._last:
            unshare(self._path)
            flip(self._path, self._last)


def flip(path: Path, position: int) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        (before,) = file.read(1)
        file.seek(position)
        file.write(bytes([before ^ 0xFF]))


def unshare(path: Path) -> None:
    """Replaces a file with several hard links by a copy, so that the other links keep theirs."""
    if path.stat().st_nlink > 1:
        copy = path.with_name(path.name + ".tmp")
        shutil.copy2(path, copy)
        copy.replace(path)


class CrashFault(ActiveFault):
    """Damages written but unflushed records after a crash."""

    def __init__(self, text: str, *, topic: str | None, times: int | None) -> None:
        super().__init__(times)
        self._text = text
        self._topic = topic

    def __str__(self) -> str:
        return self._text if self._topic is None else f"{self._text} (topic {self._topic})"

    def apply(self, crashed: Broker) -> None:
        if not self.is_due:
            return
        for partition in crashed.partitions:
            if self._topic in (None, partition.topic):
                found = [it for it in unflushed_parts(partition.log) if it.start < it.end]
                if found and self.damage(found):
                    self.hits += 1

    def damage(self, unflushed: list[Unflushed]) -> bool:
        """Damages the unflushed parts of one partition, oldest first. Returns True if any is."""
        raise NotImplementedError


class Unflushed(NamedTuple):
    """The part of a segment file after the last flush."""

    path: Path
    start: int
    end: int


def unflushed_parts(log: Log) -> Iterator[Unflushed]:
    for path in sorted(Path(log.directory).glob("*.log")):
        yield Unflushed(path, position_at_or_after(path, log.recovery_point), path.stat().st_size)


def position_at_or_after(path: Path, offset: int) -> int:
    """Returns the position of the first batch whose base offset is at least 'offset'."""
    for position, base_offset, _ in batches_in(path):
        if base_offset >= offset:
            return position
    return path.stat().st_size


def batches_in(path: Path) -> Iterator[tuple[int, int, int]]:
    """Yields position, base offset and end of each batch."""
    position, data = 0, path.read_bytes()
    while position + _PREFIX_BYTES <= len(data):
        base_offset, length = _BOUNDS.unpack_from(data, position)
        end = position + _PREFIX_BYTES + length
        if length <= 0 or end > len(data):
            return
        yield position, base_offset, end
        position = end


class TornTail(CrashFault):
    """Truncates the last batch to its first half."""

    def __init__(self, *, topic: str | None, times: int | None) -> None:
        super().__init__("torn log tail at a crash", topic=topic, times=times)

    def damage(self, unflushed: list[Unflushed]) -> bool:
        last = unflushed[-1]
        *_, (start, _, end) = batches_in(last.path)
        unshare(last.path)
        os.truncate(last.path, (start + end) // 2)
        return True


class LostPages(CrashFault):
    """Loses unflushed bytes: all of them, or random pages if 'chance' is given."""

    def __init__(
        self, chance: random.Random | None, *, topic: str | None, times: int | None
    ) -> None:
        super().__init__("unflushed bytes lost at a crash", topic=topic, times=times)
        self._chance = chance

    def damage(self, unflushed: list[Unflushed]) -> bool:
        for part in unflushed:
            unshare(part.path)
            if self._chance is None:
                os.truncate(part.path, part.start)
            else:
                self._lose_some(part, self._chance)
        return True

    def _lose_some(self, part: Unflushed, chance: random.Random) -> None:
        """Zeroes each page with probability 1/2, then truncates the file with probability 1/2."""
        with part.path.open("r+b") as file:
            for page in range(part.start // PAGE_BYTES, -(-part.end // PAGE_BYTES)):
                if chance.random() < 0.5:
                    first = max(part.start, page * PAGE_BYTES)
                    file.seek(first)
                    file.write(bytes(min(part.end, (page + 1) * PAGE_BYTES) - first))
        if chance.random() < 0.5:
            os.truncate(part.path, chance.randrange(part.start, part.end))
