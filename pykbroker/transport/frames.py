"""Cuts what arrives on a connection into frames: a four-byte size and as many bytes."""

from array import array
from struct import Struct
from typing import Final

SIZE: Final = Struct(">i")

SCRATCH_BYTES: Final = 64 * 1024
"""One read takes at most this much, unless a larger frame is under way."""

BEGIN_BYTES: Final = 64 * 1024
GROWTH: Final = 4
"""A peer gets the memory as its bytes come in, not for what it announces: so much to begin with,
then so many times what it has sent. To double would copy a large frame thrice as often."""

SPARE_BYTES_MIN: Final = 64 * 1024
SPARE_BYTES_MAX: Final = 2 * 1024 * 1024
SPARES_MAX: Final = 4
"""Large frames come one after the other: their memory is used again, up to 8 MiB of it.

Fresh memory costs a page fault for each page, which is as much as receiving it."""

PAGE_BYTES: Final = 4096
START_IN_PAGE: Final = 1024
"""Where in a page a large frame starts. The rest of it is received right after a full scratch,
so nearly at the same place in a page; if that is just above a page's start, where the kernel's
own buffers start, copying a megabyte took 335 us instead of 90 (AMD EPYC)."""


HTTP_STARTS: Final = frozenset(
    {b"GET ", b"HEAD", b"POST", b"PUT ", b"PATC", b"DELE", b"OPTI", b"CONN", b"TRAC", b"PRI "}
)
TLS_START: Final = b"\x16\x03"
"""A record of a handshake, of any version since SSL 3.0."""


def other_protocol(start: bytes) -> str | None:
    """The protocol that begins with these four bytes, if it is known."""
    if start in HTTP_STARTS:
        return "HTTP"
    if start.startswith(TLS_START):
        return "TLS (this listener is PLAINTEXT)"
    return None


class Scratch:
    """The memory into which connections read while no large frame is under way.

    All connections of a loop share it, because the loops fill a buffer and report it filled
    without doing anything in between; so an idle connection owns no buffer.
    """

    __slots__ = ("_spares", "memory", "view")

    def __init__(self, size: int = SCRATCH_BYTES) -> None:
        self.memory = bytearray(size)
        self.view = memoryview(self.memory)
        self._spares: list[Spare] = []

    def memory_for(self, size: int, received: int) -> memoryview:
        """Room for a frame of which so much has come, with whatever bytes are in it.

        For all of it in memory that is there anyway, else for what its bytes so far vouch for.
        """
        if SPARE_BYTES_MIN <= size <= SPARE_BYTES_MAX:
            for spare in self._spares:
                if spare.size >= size and spare.is_free:
                    return spare.room(size)
        room = min(size, max(BEGIN_BYTES, GROWTH * received))
        if not SPARE_BYTES_MIN <= room <= SPARE_BYTES_MAX:
            return memoryview(bytearray(room))
        fresh = Spare(-(-room // SPARE_BYTES_MIN) * SPARE_BYTES_MIN)
        if room == size:
            self._keep(fresh)
        return fresh.room(room)

    def _keep(self, fresh: "Spare") -> None:
        """For frames to come, in the place of one that is free and was too small, if need be.

        Those that are held stay: else each whole frame would make one more that a peer can be
        lent for an announcement alone.
        """
        if len(self._spares) < SPARES_MAX:
            self._spares.append(fresh)
            return
        for place, spare in enumerate(self._spares):
            if spare.is_free:
                self._spares[place] = fresh
                return


class Spare:
    """Memory that serves for one large frame after the other."""

    __slots__ = ("_memory", "_start", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self._memory = array("B", bytes(size + PAGE_BYTES))  # an array tells its address
        self._start = (START_IN_PAGE - self._memory.buffer_info()[0]) % PAGE_BYTES

    def room(self, size: int) -> memoryview:
        return memoryview(self._memory)[self._start : self._start + size]

    @property
    def is_free(self) -> bool:
        """Whether nobody holds a view of it: an array refuses to change its length under one."""
        try:
            self._memory.append(self._memory.pop())
        except BufferError:
            return False
        return True


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
        self._frame: memoryview | None = None  # a frame that was cut: its first _filled bytes
        self._filled = 0
        self._size = 0

    def buffer(self) -> memoryview:
        """Where the next bytes belong; never empty."""
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
        self.violation = f"it announced a frame of {size} bytes"
        other = other_protocol(SIZE.pack(size))
        if other is not None:
            self.violation = f"this looks like {other}, not like Kafka's protocol"
        elif size > self.request_bytes_max:
            self.violation += f", and at most {self.request_bytes_max} are allowed"
