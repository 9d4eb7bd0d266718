"""What becomes of segment files behind a broker's back: bytes flip, ends are torn off or lost.

A file may share its bytes with copies (`fork`, `snapshot`, `save`): it gets bytes of its own first.
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
"""Of a batch: base offset, length, leader epoch, magic, checksum. No other batch has the same."""
_BOUNDS = Struct(">qi")
_PREFIX_BYTES: Final = 12


class FlippedByte(ActiveFault):
    """The last byte of a stored batch is another one, and readers meet it; its end mends it."""

    def __init__(self, topic: str, partition: int, offset: int) -> None:
        super().__init__(None)
        self._where = f"{topic}-{partition}, offset {offset}"
        self._path = Path()
        self._start = self._last = 0
        self._identity = b""

    def __str__(self) -> str:
        return f"a byte is flipped ({self._where})"

    def strike(self, log: Log, offset: int) -> None:
        for segment in log.segments():
            if offset < segment.next_offset and segment.size_bytes:
                return self._flip_in(segment, offset)
        raise FaultMatchedNothing(f"there is no record to damage: {self._where}")

    def _flip_in(self, segment: Segment, offset: int) -> None:
        batch = first_batch(segment.file, segment.position_of(offset), reaching=offset)
        if batch is None or offset < segment.base_offset:
            raise FaultMatchedNothing(f"there is no record to damage: {self._where}")
        self._path = Path(segment.file.path)
        self._start, self._last = batch.position, batch.end - 1
        self._identity = segment.file.read(self._start, self._start + IDENTITY_BYTES)
        own_bytes(self._path)
        segment.file.let_go()
        flip(self._path, self._last)
        segment.verify_lazily()  # as a start does: what was in memory is forgotten
        self.hits += 1

    def end(self) -> None:
        """The byte is as it was, unless the batch is no longer there."""
        if not self.is_over:
            super().end()
            with suppress(OSError):
                self._mend()

    def _mend(self) -> None:
        with self._path.open("rb") as file:
            file.seek(self._start)
            is_there = file.read(IDENTITY_BYTES) == self._identity
        if is_there and self._path.stat().st_size > self._last:
            own_bytes(self._path)
            flip(self._path, self._last)


def flip(path: Path, position: int) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        (before,) = file.read(1)
        file.seek(position)
        file.write(bytes([before ^ 0xFF]))


def own_bytes(path: Path) -> None:
    """Nobody else's copy is touched: a file that shares its bytes is replaced by a copy."""
    if path.stat().st_nlink > 1:
        copy = path.with_name(path.name + ".tmp")
        shutil.copy2(path, copy)
        copy.replace(path)


class CrashFault(ActiveFault):
    """What a crash leaves of the records that were written and not flushed."""

    def __init__(self, text: str, *, topic: str | None, times: int | None) -> None:
        super().__init__(times)
        self._text = text
        self._topic = topic

    def __str__(self) -> str:
        return self._text if self._topic is None else f"{self._text} (topic {self._topic})"

    def strike(self, crashed: Broker) -> None:
        if not self.is_due:
            return
        for partition in crashed.partitions:
            if self._topic in (None, partition.topic):
                found = [it for it in unflushed_parts(partition.log) if it.start < it.end]
                if found and self.damage(found):
                    self.hits += 1

    def damage(self, unflushed: list[Unflushed]) -> bool:
        """Of one partition, oldest first; whether anything was lost."""
        raise NotImplementedError


class Unflushed(NamedTuple):
    """The end of a segment's file that no flush has made durable."""

    path: Path
    start: int
    end: int


def unflushed_parts(log: Log) -> Iterator[Unflushed]:
    for path in sorted(Path(log.directory).glob("*.log")):
        yield Unflushed(path, position_at_or_after(path, log.recovery_point), path.stat().st_size)


def position_at_or_after(path: Path, offset: int) -> int:
    """Where the first batch begins that starts at this offset or later."""
    for position, base_offset, _ in batches_in(path):
        if base_offset >= offset:
            return position
    return path.stat().st_size


def batches_in(path: Path) -> Iterator[tuple[int, int, int]]:
    """Position, base offset and end of each."""
    position, data = 0, path.read_bytes()
    while position + _PREFIX_BYTES <= len(data):
        base_offset, length = _BOUNDS.unpack_from(data, position)
        end = position + _PREFIX_BYTES + length
        if length <= 0 or end > len(data):
            return
        yield position, base_offset, end
        position = end


class TornTail(CrashFault):
    """Of the last batch, only the first half has reached the disk."""

    def __init__(self, *, topic: str | None, times: int | None) -> None:
        super().__init__("the tail of the log is torn at a crash", topic=topic, times=times)

    def damage(self, unflushed: list[Unflushed]) -> bool:
        last = unflushed[-1]
        *_, (start, _, end) = batches_in(last.path)
        own_bytes(last.path)
        os.truncate(last.path, (start + end) // 2)
        return True


class LostPages(CrashFault):
    """What was not flushed is gone: all of it, or page by page as chance has it."""

    def __init__(
        self, chance: random.Random | None, *, topic: str | None, times: int | None
    ) -> None:
        super().__init__("what was not flushed is lost at a crash", topic=topic, times=times)
        self._chance = chance

    def damage(self, unflushed: list[Unflushed]) -> bool:
        for part in unflushed:
            own_bytes(part.path)
            if self._chance is None:
                os.truncate(part.path, part.start)
            else:
                self._lose_some(part, self._chance)
        return True

    def _lose_some(self, part: Unflushed, chance: random.Random) -> None:
        """The file is as long as before, and some pages of it hold nothing, or it is shorter."""
        with part.path.open("r+b") as file:
            for page in range(part.start // PAGE_BYTES, -(-part.end // PAGE_BYTES)):
                if chance.random() < 0.5:
                    first = max(part.start, page * PAGE_BYTES)
                    file.seek(first)
                    file.write(bytes(min(part.end, (page + 1) * PAGE_BYTES) - first))
        if chance.random() < 0.5:
            os.truncate(part.path, chance.randrange(part.start, part.end))
