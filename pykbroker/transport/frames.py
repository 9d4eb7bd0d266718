"""Cuts what arrives on a connection into frames: a four-byte size and as many bytes."""

from struct import Struct
from typing import Final

SIZE: Final = Struct(">i")

SCRATCH_BYTES: Final = 64 * 1024
"""One read takes at most this much, unless a larger frame is under way."""

ALLOCATE_AT_ONCE_BYTES_MAX: Final = 4 * 1024 * 1024
"""A peer that announces more gets the memory as its bytes come in, not for the announcement."""


class Scratch:
    """The memory into which connections read while no large frame is under way.

    All connections of a loop share it, because the loops fill a buffer and report it filled
    without doing anything in between; so an idle connection owns no buffer.
    """

    __slots__ = ("memory", "view")

    def __init__(self, size: int = SCRATCH_BYTES) -> None:
        self.memory = bytearray(size)
        self.view = memoryview(self.memory)


class FrameReader:
    """Tells where the next bytes are to be put, and which frames they complete.

    Between frames, bytes go to the scratch and every whole frame found there is copied out. The
    rest of a frame that did not come in one piece is received straight into the frame.
    """

    __slots__ = (
        "_filled",
        "_frame",
        "_head",
        "_scratch",
        "_size",
        "request_bytes_max",
        "violation",
    )

    def __init__(self, scratch: Scratch, request_bytes_max: int) -> None:
        self._scratch = scratch
        self.request_bytes_max = request_bytes_max
        self.violation: str | None = None
        self._head = b""  # the first bytes of a size that was cut
        self._frame: bytearray | None = None  # a frame that was cut: its first _filled bytes
        self._filled = 0
        self._size = 0

    def buffer(self) -> memoryview:
        """Where the next bytes belong; never empty."""
        if self._frame is not None:
            if self._filled == len(self._frame):
                self._frame = self._grown(self._frame)
            return memoryview(self._frame)[self._filled :]
        if self._head:
            held = len(self._head)
            self._scratch.view[:held] = self._head
            return self._scratch.view[held:]
        return self._scratch.view

    def received(self, count: int) -> list[memoryview]:
        """The frames completed by the count of bytes just put into the buffer.

        After a violation nothing more is a frame: where the next one starts is unknown.
        """
        if self._frame is not None:
            return self._fill(count)
        if self.violation is not None:
            return []
        return self._cut(len(self._head) + count)

    @property
    def is_between_frames(self) -> bool:
        """Whether everything received belongs to whole frames."""
        return self._frame is None and not self._head

    def _cut(self, end: int) -> list[memoryview]:
        memory = self._scratch.memory
        frames: list[memoryview] = []
        start = 0
        while end - start >= 4:
            (size,) = SIZE.unpack_from(memory, start)
            if not 0 <= size <= self.request_bytes_max:
                self._refuse(size)
                return frames
            start += 4
            stop = start + size
            if stop > end:
                self._begin(size, memory[start:end])
                return frames
            frames.append(memoryview(memory[start:stop]))
            start = stop
        self._head = bytes(memory[start:end]) if start < end else b""
        return frames

    def _begin(self, size: int, first: bytearray) -> None:
        self._head = b""
        self._frame = bytearray(min(size, ALLOCATE_AT_ONCE_BYTES_MAX))
        self._frame[: len(first)] = first
        self._filled = len(first)
        self._size = size

    def _fill(self, count: int) -> list[memoryview]:
        self._filled += count
        if self._filled < self._size:
            return []
        frame = self._frame
        assert frame is not None
        self._frame = None
        return [memoryview(frame)]

    def _grown(self, frame: bytearray) -> bytearray:
        # Not resized in place: the loop may still hold a view of it.
        larger = bytearray(min(self._size, 2 * len(frame)))
        larger[: len(frame)] = frame
        return larger

    def _refuse(self, size: int) -> None:
        self._head = b""
        self.violation = f"it announced a frame of {size} bytes"
        if size > self.request_bytes_max:
            self.violation += f", and at most {self.request_bytes_max} are allowed"
