"""Cuts the bytes received on a connection into frames: a four-byte size, then the body."""

from array import array
from struct import Struct
from typing import Final

SIZE: Final = Struct(">i")

SCRATCH_BYTES: Final = 64 * 1024
"""Bytes per read, unless a larger frame is being received."""

FIRST_BYTES: Final = 64 * 1024
GROWTH: Final = 4
"""Memory for a frame grows with the bytes received, not with the announced size: FIRST_BYTES, then
GROWTH times the bytes received. A factor of 2 would copy a large frame three times as often."""

SPARE_BYTES_MIN: Final = 64 * 1024
SPARE_BYTES_MAX: Final = 2 * 1024 * 1024
SPARES_MAX: Final = 4
"""Memory of large frames is reused, up to 8 MiB in total.

New memory costs a page fault per page, as much time as receiving the page."""

PAGE_BYTES: Final = 4096
START_IN_PAGE: Final = 1024
"""Offset of a large frame in its first page. Kernel buffers start at page boundaries; with a frame
just above a page boundary, copying a megabyte took 335 us instead of 90 us (AMD EPYC)."""


HTTP_STARTS: Final = frozenset(
    {b"GET ", b"HEAD", b"POST", b"PUT ", b"PATC", b"DELE", b"OPTI", b"CONN", b"TRAC", b"PRI "}
)
TLS_START: Final = b"\x16\x03"
"""Handshake record of any version since SSL 3.0."""


def other_protocol(start: bytes) -> str | None:
    """Returns the name of the protocol that starts with these four bytes; None if unknown."""
    if start in HTTP_STARTS:
        return "HTTP"
    if start.startswith(TLS_START):
        return "TLS (this listener is PLAINTEXT)"
    return None


class Scratch:
    """Receive buffer that all connections of an event loop share, and reusable frame memory.

    Sharing is safe because the event loop fills a buffer and calls `buffer_updated` without running
    other code in between. An idle connection therefore owns no buffer.
    """

    __slots__ = ("_spares", "memory", "view")

    def __init__(self, size: int = SCRATCH_BYTES) -> None:
        self.memory = bytearray(size)
        self.view = memoryview(self.memory)
        self._spares: list[Spare] = []

    def memory_for(self, size: int, received: int) -> memoryview:
        """Returns uninitialized memory for a frame of which `received` bytes have arrived.

        The memory holds the whole frame if a spare is free, otherwise GROWTH times `received`.
        """
        if SPARE_BYTES_MIN <= size <= SPARE_BYTES_MAX:
            for spare in self._spares:
                if spare.size >= size and spare.is_free:
                    return spare.room(size)
        room = min(size, max(FIRST_BYTES, GROWTH * received))
        if not SPARE_BYTES_MIN <= room <= SPARE_BYTES_MAX:
            return memoryview(bytearray(room))
        fresh = Spare(-(-room // SPARE_BYTES_MIN) * SPARE_BYTES_MIN)
        if room == size:
            self._keep(fresh)
        return fresh.room(room)

    def _keep(self, fresh: "Spare") -> None:
        """Keeps memory for later frames; replaces a free, smaller spare once SPARES_MAX are kept.

        Spares in use stay in the list: otherwise each whole frame would add one more spare that a
        peer gets for an announced size alone.
        """
        if len(self._spares) < SPARES_MAX:
            self._spares.append(fresh)
            return
        for index, spare in enumerate(self._spares):
            if spare.is_free:
                self._spares[index] = fresh
                return


class Spare:
    """Memory that is reused for one large frame after another."""

    __slots__ = ("_memory", "_start", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self._memory = array("B", bytes(size + PAGE_BYTES))  # exposes its address
        self._start = (START_IN_PAGE - self._memory.buffer_info()[0]) % PAGE_BYTES

    def room(self, size: int) -> memoryview:
        return memoryview(self._memory)[self._start : self._start + size]

    @property
    def is_free(self) -> bool:
        """True if no view of the memory exists: an array with views cannot change its length."""
        try:
            self._memory.append(self._memory.pop())
        except BufferError:
            return False
        return True


class FrameReader:
    """Provides the buffer for the next bytes and returns the frames that they complete.

    Between frames, bytes are received into the scratch and each complete frame is copied out. The
    rest of an incomplete frame is received directly into the memory of that frame.
    """

    __slots__ = (
        "_filled",
        "_frame",
        "_head",
        "_scratch",
        "_size",
        "frame_bytes_max",
        "violation",
    )

    def __init__(self, scratch: Scratch, frame_bytes_max: int) -> None:
        self._scratch = scratch
        self.frame_bytes_max = frame_bytes_max
        self.violation: str | None = None
        self._head = b""  # the first bytes of an incomplete size
        self._frame: memoryview | None = None  # incomplete frame; _filled bytes received
        self._filled = 0
        self._size = 0

    def buffer(self) -> memoryview:
        """Returns the buffer for the next bytes; never empty."""
        if self._frame is not None:
            if self._filled == len(self._frame):
                self._frame = self._grown(self._frame)
            return self._frame[self._filled :]
        if self._head:
            held = len(self._head)
            self._scratch.view[:held] = self._head
            return self._scratch.view[held:]
        return self._scratch.view

    def received(self, count: int) -> list[memoryview]:
        """Returns the frames completed by the last `count` bytes put into the buffer.

        After a violation it returns no frames, because the start of the next frame is unknown.
        """
        if self._frame is not None:
            return self._fill(count)
        if self.violation is not None:
            return []
        return self._cut(len(self._head) + count)

    @property
    def is_between_frames(self) -> bool:
        """True if all received bytes belong to complete frames."""
        return self._frame is None and not self._head

    def _cut(self, end: int) -> list[memoryview]:
        memory = self._scratch.memory
        frames: list[memoryview] = []
        start = 0
        while end - start >= 4:
            (size,) = SIZE.unpack_from(memory, start)
            if not 0 <= size <= self.frame_bytes_max:
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
        self._frame = self._scratch.memory_for(size, len(first))
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
        return [frame]

    def _grown(self, frame: memoryview) -> memoryview:
        larger = self._scratch.memory_for(self._size, len(frame))
        larger[: len(frame)] = frame
        return larger

    def _refuse(self, size: int) -> None:
        self._head = b""
        self.violation = f"frame size {size} is negative"
        other = other_protocol(SIZE.pack(size))
        if other is not None:
            self.violation = f"received {other} instead of the Kafka protocol"
        elif size > self.frame_bytes_max:
            self.violation = f"frame size {size} exceeds the maximum of {self.frame_bytes_max}"
