"""A connection to a broker: requests go out, answers come back in the same order."""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Final, Self, cast

from pykbroker.apis.answers import Buffer
from pykbroker.framing.coalescing import coalesce
from pykbroker.framing.frame_reader import SIZE, FrameReader, Scratch

RESPONSE_BYTES_MAX: Final = 128 * 1024 * 1024
TIMEOUT_S: Final = 30.0
CLOSE_TIMEOUT_S: Final = 1.0


class ConnectionFailed(Exception):
    """The broker could not be reached, or did not answer; the message names it and says why."""


class Disconnected(ConnectionFailed):
    """There is no connection, or no longer one: whether the request was carried out is unknown."""


class TimedOut(ConnectionFailed):
    """The broker did not answer in time: whether the request was carried out is unknown."""


class Connection:
    """One connection to one broker, for a program that awaits its answers.

    A request that timed out keeps its place: its answer is dropped when it comes.
    """

    def __init__(self, name: str, wire: "_Wire", timeout_s: float) -> None:
        self.name = name
        self._wire = wire
        self._timeout_s = timeout_s

    @classmethod
    async def open(
        cls,
        host: str,
        port: int,
        *,
        timeout_s: float = TIMEOUT_S,
        response_bytes_max: int = RESPONSE_BYTES_MAX,
    ) -> Self:
        """Connects; the timeout holds for connecting and for every request after it."""
        name = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(timeout_s):
                _, wire = await loop.create_connection(
                    lambda: _Wire(name, response_bytes_max), host, port
                )
        except TimeoutError as error:
            raise TimedOut(f"{name} did not accept the connection in {timeout_s:g} s") from error
        except OSError as error:
            reason = error.strerror or str(error)
            raise Disconnected(f"cannot connect to {name}: {reason}") from error
        return cls(name, wire, timeout_s)

    async def request(
        self, frame: Sequence[Buffer], *, timeout_s: float | None = None
    ) -> memoryview:
        """Sends a request, without its size prefix, and awaits its answer."""
        timeout_s = self._timeout_s if timeout_s is None else timeout_s
        try:
            async with asyncio.timeout(timeout_s):
                await self._wire.until_writable()
                return await self._wire.ask(frame)
        except TimeoutError as error:
            raise TimedOut(f"{self.name} did not answer in {timeout_s:g} s") from error

    async def send(self, frame: Sequence[Buffer]) -> None:
        """Sends a request that is not answered (acks=0)."""
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._wire.until_writable()
                self._wire.send(frame)
        except TimeoutError as error:
            raise TimedOut(f"{self.name} takes no more requests") from error

    @property
    def is_open(self) -> bool:
        return self._wire.lost is None

    async def close(self) -> None:
        """Sends what was handed in and ends; requests still unanswered raise Disconnected."""
        self._wire.close()
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await self._wire.until_lost()
        except TimeoutError:
            self._wire.abort()
            await self._wire.until_lost()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class _Wire(asyncio.BufferedProtocol):
    """The event loop's side of the connection."""

    def __init__(self, name: str, response_bytes_max: int) -> None:
        self._name = name
        self._loop = asyncio.get_running_loop()
        self._reader = FrameReader(Scratch(), response_bytes_max)
        self._transport: asyncio.Transport | None = None
        self._asked: deque[asyncio.Future[memoryview]] = deque()
        self._writable = asyncio.Event()
        self._has_been_lost = asyncio.Event()
        self.lost: Disconnected | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._writable.set()

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - the loop's guess; we know
        return self._reader.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        for answer in self._reader.received(nbytes):
            if not self._asked:
                self._lose("it answered what was not asked")
                return
            asked = self._asked.popleft()
            if not asked.done():  # otherwise nobody waits for it any more
                asked.set_result(answer)
        if self._reader.violation is not None:
            self._lose(self._reader.violation)

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self._lose("the connection was closed" if exc is None else str(exc))
        self._transport = None
        self._has_been_lost.set()

    def ask(self, frame: Sequence[Buffer]) -> asyncio.Future[memoryview]:
        """Sends and gives a promise of the answer."""
        self.send(frame)
        answer: asyncio.Future[memoryview] = self._loop.create_future()
        self._asked.append(answer)
        return answer

    def send(self, frame: Sequence[Buffer]) -> None:
        if self.lost is not None:
            raise Disconnected(str(self.lost)) from self.lost
        assert self._transport is not None
        for piece in coalesce([SIZE.pack(sum(map(len, frame))), *frame]):
            self._transport.write(piece)

    async def until_writable(self) -> None:
        """Waits while the broker does not take what was sent."""
        await self._writable.wait()

    async def until_lost(self) -> None:
        await self._has_been_lost.wait()

    def close(self) -> None:
        self._end("the connection was closed by this program")
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _lose(self, reason: str) -> None:
        self._end(reason)
        self.abort()

    def _end(self, reason: str) -> None:
        if self.lost is not None:
            return
        self.lost = Disconnected(f"{self._name}: {reason}")
        while self._asked:
            asked = self._asked.popleft()
            if not asked.done():
                asked.set_exception(Disconnected(str(self.lost)))
        self._writable.set()  # whoever waits to write finds out
