"""One TCP connection to a broker: pipelined requests, responses in the order of the requests."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, Self, TypeAlias, cast

from pykbroker.client.connection_options import ConnectionOptions
from pykbroker.client.errors import ClientError, Disconnected, InvalidResponse, TimedOut
from pykbroker.framing.coalescing import coalesce
from pykbroker.framing.frame_reader import SIZE, FrameReader, Scratch
from pykbroker_protocol.varint import Buffer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pykbroker.address import Address
    from pykbroker.clock import Clock

Encode: TypeAlias = Callable[[int], Sequence[Buffer]]
"""Encodes a request with this correlation id, without the size prefix."""

CLOSE_TIMEOUT_SECONDS: Final = 1.0
CORRELATION_BYTES: Final = 4
CORRELATION_IDS: Final = 2**31


class Connection:
    """Sends encoded requests and returns encoded responses.

    A request that timed out keeps its place in the order: its late response is discarded.
    """

    def __init__(self, address: Address, protocol: ResponseProtocol, clock: Clock) -> None:
        self.address = address
        self._protocol = protocol
        self._clock = clock
        self._correlation_id = 0

    @classmethod
    async def open(cls, address: Address, options: ConnectionOptions | None = None) -> Self:
        """Connects within the timeout of the options."""
        options = options or ConnectionOptions()
        protocol = ResponseProtocol(address, options)
        seconds = options.timeout_seconds
        try:
            async with time_limit(options.clock, seconds):
                await options.connect(lambda: protocol, address.host, address.port)
        except TimeoutError as error:
            raise TimedOut(f"{address} did not accept the connection in {seconds:g} s") from error
        except OSError as error:
            raise Disconnected(f"cannot connect to {address}: {reason_of(error)}") from error
        return cls(address, protocol, options.clock)

    async def request(self, encode: Encode, *, timeout_seconds: float) -> memoryview:
        """Sends a request and returns its response, which begins with the correlation id."""
        if not self._protocol.is_sendable:
            return await self._request_when_sendable(encode, timeout_seconds)
        correlation_id = self._next_correlation_id()
        response = self._protocol.request(encode(correlation_id), correlation_id)
        # Half the CPU of `time_limit`, which interrupts the whole task.
        alarm = self._clock.call_later(timeout_seconds, self._expire, response, timeout_seconds)
        try:
            return await response
        finally:
            alarm.cancel()

    def _expire(self, response: asyncio.Future[memoryview], timeout_seconds: float) -> None:
        if not response.done():
            response.set_exception(self._timed_out(timeout_seconds))

    async def _request_when_sendable(self, encode: Encode, timeout_seconds: float) -> memoryview:
        try:
            async with time_limit(self._clock, timeout_seconds):
                await self._protocol.until_sendable()
                correlation_id = self._next_correlation_id()
                return await self._protocol.request(encode(correlation_id), correlation_id)
        except TimeoutError as error:
            raise self._timed_out(timeout_seconds) from error

    def _timed_out(self, timeout_seconds: float) -> TimedOut:
        return TimedOut(f"{self.address} did not respond in {timeout_seconds:g} s")

    async def send(self, encode: Encode, *, timeout_seconds: float) -> None:
        """Sends a request that has no response (acks=0)."""
        try:
            async with time_limit(self._clock, timeout_seconds):
                await self._protocol.until_sendable()
                self._protocol.send(encode(self._next_correlation_id()))
        except TimeoutError as error:
            text = f"{self.address} did not read the requests in {timeout_seconds:g} s"
            raise TimedOut(text) from error

    @property
    def is_open(self) -> bool:
        return self._protocol.failure is None

    def fail(self, failure: ClientError) -> None:
        """Closes the connection; requests in flight and later ones raise this error."""
        self._protocol.fail(failure)

    async def close(self) -> None:
        """Sends pending bytes and closes; requests in flight raise Disconnected."""
        self._protocol.close()
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT_SECONDS):
                await self._protocol.until_lost()
        except TimeoutError:
            self._protocol.abort()
            await self._protocol.until_lost()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _next_correlation_id(self) -> int:
        self._correlation_id = (self._correlation_id + 1) % CORRELATION_IDS
        return self._correlation_id


class ResponseProtocol(asyncio.BufferedProtocol):
    """The part of a connection that the event loop calls."""

    def __init__(self, address: Address, options: ConnectionOptions) -> None:
        self._address = address
        self._in_flight_max = options.in_flight_max
        self._loop = asyncio.get_running_loop()
        self._reader = FrameReader(Scratch(), options.response_bytes_max)
        self._transport: asyncio.Transport | None = None
        self._in_flight: deque[tuple[int, asyncio.Future[memoryview]]] = deque()
        self._is_paused = False
        self._sendable = asyncio.Event()
        self._lost = asyncio.Event()
        self.failure: ClientError | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._set_sendable()

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - the reader knows the size
        return self._reader.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        for response in self._reader.received(nbytes):
            violation = self._complete(response)
            if violation is not None:
                self.fail(InvalidResponse(f"{self._address}: {violation}"))
                return
        if self._reader.violation is not None:
            self.fail(InvalidResponse(f"{self._address}: {self._reader.violation}"))
        self._set_sendable()

    def pause_writing(self) -> None:
        self._is_paused = True
        self._set_sendable()

    def resume_writing(self) -> None:
        self._is_paused = False
        self._set_sendable()

    def connection_lost(self, exc: Exception | None) -> None:
        reason = "the connection was closed" if exc is None else str(exc)
        self.fail(Disconnected(f"{self._address}: {reason}"))
        self._transport = None
        self._lost.set()

    def request(self, frame: Sequence[Buffer], correlation_id: int) -> asyncio.Future[memoryview]:
        self.send(frame)
        response: asyncio.Future[memoryview] = self._loop.create_future()
        self._in_flight.append((correlation_id, response))
        self._set_sendable()
        return response

    def send(self, frame: Sequence[Buffer]) -> None:
        if self.failure is not None:
            raise repeated(self.failure)
        assert self._transport is not None
        for piece in coalesce([SIZE.pack(sum(map(len, frame))), *frame]):
            self._transport.write(piece)

    @property
    def is_sendable(self) -> bool:
        return self._sendable.is_set()

    async def until_sendable(self) -> None:
        """Waits while the send buffer is full or too many requests are in flight."""
        while not self._sendable.is_set():
            await self._sendable.wait()

    async def until_lost(self) -> None:
        await self._lost.wait()

    def close(self) -> None:
        self._fail_requests(Disconnected(f"{self._address}: the connection was closed here"))
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def fail(self, failure: ClientError) -> None:
        self._fail_requests(failure)
        self.abort()

    def _complete(self, response: memoryview) -> str | None:
        """Hands a response to its request; returns what is wrong with it, if anything."""
        if not self._in_flight:
            return "received a response without a request"
        if len(response) < CORRELATION_BYTES:
            return f"response of {len(response)} bytes has no correlation id"
        correlation_id = int.from_bytes(response[:CORRELATION_BYTES], "big", signed=True)
        expected, request = self._in_flight[0]
        if correlation_id != expected:
            return f"response has correlation id {correlation_id}, expected {expected}"
        self._in_flight.popleft()
        if not request.done():  # it may have timed out
            request.set_result(response)
        return None

    def _set_sendable(self) -> None:
        is_full = self._is_paused or len(self._in_flight) >= self._in_flight_max
        if self.failure is not None or (self._transport is not None and not is_full):
            self._sendable.set()  # after a failure, waiting senders raise it
        else:
            self._sendable.clear()

    def _fail_requests(self, failure: ClientError) -> None:
        if self.failure is not None:
            return
        self.failure = failure
        while self._in_flight:
            _, request = self._in_flight.popleft()
            if not request.done():
                request.set_exception(repeated(failure))
        self._set_sendable()


@asynccontextmanager
async def time_limit(clock: Clock, seconds: float) -> AsyncIterator[None]:
    """Raises TimeoutError when so much time of this clock has passed."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(None) as limit:
        alarm = clock.call_later(seconds, lambda: limit.reschedule(loop.time()))
        try:
            yield
        finally:
            alarm.cancel()


def repeated(failure: ClientError) -> ClientError:
    """Returns a copy of the error: raising the same object twice would add a second traceback."""
    return type(failure)(*failure.args)


def reason_of(error: OSError) -> str:
    """Returns the system's text; asyncio replaces that of a refused connection by its own."""
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    return error.strerror or str(error)
