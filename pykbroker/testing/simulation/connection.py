"""An in-memory connection with latency, fragmentation and loss."""

from __future__ import annotations

import asyncio
import errno
import os
from collections import deque
from contextvars import Context, copy_context
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterable, Iterator

    from pykbroker.testing.simulation.link import Link

WINDOW_BYTES: Final = 128 * 1024
"""Bytes in flight or in socket buffers before the transport's write buffer fills."""
UNSENT_BYTES_MAX: Final = 64 * 1024
"""asyncio's default limit of the write buffer."""
PIECE_BYTES_MAX: Final = 64 * 1024
CUTS_MAX: Final = 3
RETRANSMISSION_SECONDS: Final = 0.2
ATTEMPTS_MAX: Final = 8
UNANSWERED_SECONDS_MAX: Final = 924.0
"""Fifteen retransmissions, as in Linux; then the sender's connection times out."""

Address = tuple[str, int]


class NetworkAccess(Protocol):
    """The part of the network that connections use."""

    chance: random.Random
    moved: Callable[[], None]
    delivers_after_close: bool

    def number(self) -> int: ...
    def add_endpoint(self, end: Endpoint) -> None: ...
    def remove_endpoint(self, end: Endpoint) -> None: ...
    def link(self, source: str, target: str) -> Link: ...
    def passes(self, source: str, target: str) -> bool: ...
    def is_paused(self, host: str) -> bool: ...
    def call_when_reachable(
        self, source: str, target: str, callback: Callable[[], None]
    ) -> int: ...
    def cancel_call(self, number: int) -> None: ...


def pair(network: NetworkAccess, one: Address, other: Address) -> tuple[Endpoint, Endpoint]:
    """Returns the two endpoints of a new connection."""
    here, there = Endpoint(network, one), Endpoint(network, other)
    here.join(there)
    there.join(here)
    return here, there


class Endpoint(asyncio.Transport):
    """One endpoint of a connection: the transport of one program."""

    other: Endpoint

    def __init__(self, network: NetworkAccess, address: Address) -> None:
        super().__init__()
        self.address = address
        self.number = network.number()
        self._network = network
        self._loop = asyncio.get_running_loop()
        self._protocol: asyncio.BaseProtocol | None = None
        self._has_begun = self._is_closing = self._is_lost = False
        self._reads = True
        self._has_written_all = self._is_held_up = False
        self._unsent_max, self._unsent_min = UNSENT_BYTES_MAX, UNSENT_BYTES_MAX // 4
        network.add_endpoint(self)

    def join(self, other: Endpoint) -> None:
        self.other = other
        self._outgoing = Direction(self._network, self, other)

    @property
    def host(self) -> str:
        return self.address[0]

    def __hash__(self) -> int:
        return self.number

    def begin(self, protocol: Any) -> Any:
        """Connects the program's protocol. Data that has arrived already is delivered next."""
        self._protocol = protocol
        self._context = copy_context()
        protocol.connection_made(self)
        self._has_begun = True
        if self._is_lost:
            self._loop.call_soon(self._notify_lost, _reset(), context=self._context)
        else:
            self._loop.call_soon(self.other.outgoing.deliver_due)
        return protocol

    @property
    def outgoing(self) -> Direction:
        return self._outgoing

    # --- the program's side: asyncio.Transport

    def write(self, data: Any) -> None:
        if self._is_closing or self._has_written_all or not data:
            return
        self._outgoing.send(bytes(data))
        self._check_buffer()

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        self.write(b"".join(list_of_data))

    def write_eof(self) -> None:
        if not self._has_written_all and not self._is_closing:
            self._has_written_all = True
            self._outgoing.send_end()

    def can_write_eof(self) -> bool:
        return True

    def close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            if not self._network.delivers_after_close:
                self._outgoing.drop_all()
            if not self._has_written_all:
                self._outgoing.send_end()
            self._lose(None)

    def abort(self) -> None:
        if not self._is_lost:
            self._is_closing = True
            if not self._network.delivers_after_close:
                self._outgoing.drop_all()
            self._outgoing.send_reset()
            self._lose(None)

    def is_closing(self) -> bool:
        return self._is_closing

    def pause_reading(self) -> None:
        self._reads = False

    def resume_reading(self) -> None:
        if not self._reads:
            self._reads = True
            self._loop.call_soon(self.other.outgoing.deliver_due)

    def is_reading(self) -> bool:
        return self._reads and not self._is_closing

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._unsent_max = UNSENT_BYTES_MAX if high is None else high
        self._unsent_min = self._unsent_max // 4 if low is None else low

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._unsent_min, self._unsent_max

    def get_write_buffer_size(self) -> int:
        return max(0, self._outgoing.bytes_under_way - WINDOW_BYTES)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        assert self._protocol is not None
        return self._protocol

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return {"peername": self.other.address, "sockname": self.address}.get(name, default)

    # --- the network's side

    @property
    def takes_bytes(self) -> bool:
        """True if arriving data can be delivered now."""
        if self._is_lost:
            return True
        return self._has_begun and self._reads and not self._network.is_paused(self.host)

    @property
    def is_gone(self) -> bool:
        """True if data to this endpoint is answered with a reset."""
        return self._is_lost

    def receive(self, piece: bytes) -> bytes:
        """Delivers data and returns the part that the program does not accept yet."""
        return self._context.run(self._hand_over, piece)

    def _hand_over(self, piece: bytes) -> bytes:
        protocol: Any = self._protocol
        if not isinstance(protocol, asyncio.BufferedProtocol):
            protocol.data_received(piece)
            return b""
        rest = memoryview(piece)
        while rest and self._reads and not self._is_lost:
            buffer = memoryview(protocol.get_buffer(-1))
            count = min(len(rest), len(buffer))
            buffer[:count] = rest[:count]
            protocol.buffer_updated(count)
            rest = rest[count:]
        return bytes(rest)

    def receive_end(self) -> None:
        stays_open = self._context.run(cast("Any", self._protocol).eof_received)
        if not stays_open:
            self.close()

    def bytes_left(self) -> None:
        """Resumes writing when written data has arrived and the buffer is small enough."""
        if self._is_held_up and self.get_write_buffer_size() <= self._unsent_min:
            self._is_held_up = False
            if not self._is_lost:
                self._loop.call_soon(self._resume_writing, context=self._context)

    def _resume_writing(self) -> None:
        if not self._is_lost:
            cast("Any", self._protocol).resume_writing()

    def _check_buffer(self) -> None:
        if not self._is_held_up and self.get_write_buffer_size() > self._unsent_max:
            self._is_held_up = True
            cast("Any", self._protocol).pause_writing()

    # --- endings

    def break_off(self, error: OSError | None = None) -> None:
        """Loses the connection at once, with the data in flight from here."""
        if not self._is_lost:
            self._is_closing = True
            self._outgoing.drop_all()
            self._lose(error or _reset())

    def leave_behind(self) -> None:
        """The program has ended: the operating system sends a reset."""
        if not self._is_lost:
            self._is_closing = True
            self._outgoing.send_reset()
            self._lose(_reset())

    def vanish(self) -> None:
        """The machine has failed: no reset is sent and no data is retransmitted."""
        if not self._is_lost:
            self._is_closing = True
            self._outgoing.drop_all()
            self._lose(_reset())

    def _lose(self, error: Exception | None) -> None:
        self._is_lost = True
        self._network.remove_endpoint(self)
        if self._has_begun:
            self._loop.call_soon(self._notify_lost, error, context=self._context)
        self.other.outgoing.deliver_due()

    def _notify_lost(self, error: Exception | None) -> None:
        protocol, self._protocol = self._protocol, asyncio.Protocol()
        if protocol is not None:
            protocol.connection_lost(error)


class Direction:
    """One direction of a connection. Fragments arrive in order, each after its own delay."""

    def __init__(self, network: NetworkAccess, source: Endpoint, target: Endpoint) -> None:
        self.bytes_under_way = 0
        self._network = network
        self._source = source
        self._target = target
        self._pieces: deque[tuple[float, bytes | None]] = deque()
        """Arrival time and data; None is the end of the stream."""
        self._ends_with_reset = False
        self._free_at = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._held: int | None = None
        self._timeout: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self._context = Context()
        """Data in flight arrives also if its sender is paused."""

    @property
    def link(self) -> Link:
        return self._network.link(self._source.host, self._target.host)

    # --- sending

    def send(self, data: bytes) -> None:
        self.bytes_under_way += len(data)
        for piece in self._cut(data):
            self._append(piece)

    def send_end(self) -> None:
        self._append(None)

    def send_reset(self) -> None:
        self._ends_with_reset = True
        self._append(None)

    def drop_all(self) -> None:
        self._pieces.clear()
        self.bytes_under_way = 0
        self._stop()

    def _cut(self, data: bytes) -> Iterator[bytes]:
        chance, marks = self._network.chance, set(range(0, len(data), PIECE_BYTES_MAX))
        if len(data) > 1 and chance.random() < self.link.cuts:
            marks |= {chance.randrange(1, len(data)) for _ in range(chance.randint(1, CUTS_MAX))}
        starts = sorted(marks)
        for start, end in zip(starts, [*starts[1:], len(data)], strict=True):
            yield data[start:end]

    def _append(self, piece: bytes | None) -> None:
        link, chance, now = self.link, self._network.chance, self._loop.time()
        delay = link.latency_seconds + chance.uniform(0, link.jitter_seconds)
        attempts = 0
        while attempts < ATTEMPTS_MAX and link.loss and chance.random() < link.loss:
            delay += RETRANSMISSION_SECONDS * 2**attempts
            attempts += 1
        self._free_at = max(self._free_at, now) + len(piece or b"") / link.bytes_per_second
        self._pieces.append((self._free_at + delay, piece))
        if self._timer is None and self._held is None:
            # Never synchronously: the writer's call must return first.
            wait = max(0.0, self._pieces[0][0] - now)
            self._timer = self._later(wait, self.deliver_due)

    # --- arriving

    def deliver_due(self) -> None:
        """Delivers the data that is due and schedules the rest."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._pieces or self._held is not None or not self._target.takes_bytes:
            return
        wait = self._pieces[0][0] - self._loop.time()
        if wait > 0:
            self._timer = self._later(wait, self.deliver_due)
        elif not self._network.passes(self._source.host, self._target.host):
            self._hold()
        else:
            self._arrive()

    def _arrive(self) -> None:
        _, piece = self._pieces.popleft()
        self._network.moved()
        if self._target.is_gone:
            self._answer_with_reset()
        elif piece is not None:
            self._hand_over(piece)
        elif self._ends_with_reset and not self._pieces:
            self._target.break_off()
        else:
            self._target.receive_end()
        if self._pieces and self._timer is None and self._held is None:
            self._timer = self._later(0, self.deliver_due)

    def _hand_over(self, piece: bytes) -> None:
        rest = self._target.receive(piece)
        if rest:
            self._pieces.appendleft((self._loop.time(), rest))
        self.bytes_under_way -= len(piece) - len(rest)
        self._source.bytes_left()

    def _answer_with_reset(self) -> None:
        """The target endpoint is closed: the source gets a reset."""
        self.drop_all()
        if not self._source.is_gone:
            delay = self.link.latency_seconds
            self._later(delay, self._source.break_off)

    # --- not arriving

    def _hold(self) -> None:
        source, target = self._source.host, self._target.host
        self._held = self._network.call_when_reachable(source, target, self._resume)
        self._timeout = self._later(UNANSWERED_SECONDS_MAX, self._give_up)

    def _resume(self) -> None:
        self._stop()
        self.deliver_due()

    def _give_up(self) -> None:
        self._stop()
        self._source.break_off(TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT)))

    def _later(self, seconds: float, callback: Callable[[], None]) -> asyncio.TimerHandle:
        return self._loop.call_later(seconds, callback, context=self._context)

    def _stop(self) -> None:
        if self._held is not None:
            self._network.cancel_call(self._held)
            self._held = None
        for handle in (self._timer, self._timeout):
            if handle is not None:
                handle.cancel()
        self._timer = self._timeout = None


def _reset() -> ConnectionResetError:
    return ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))
