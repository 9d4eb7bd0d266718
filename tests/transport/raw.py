"""A client that sends raw bytes and frames, and socket servers for tests."""

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self

from pykbroker.apis.answers import Serve
from pykbroker.transport.limits import ConnectionLimits
from pykbroker.transport.socket_server import SocketServer

TIMEOUT_SECONDS = 10.0


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


class RawClient(AbstractAsyncContextManager["RawClient"]):
    def __init__(self, port: int, receive_buffer_bytes: int = 0) -> None:
        self._port = port
        self._socket = socket.socket()
        self._socket.setblocking(False)
        if receive_buffer_bytes:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        await loop.sock_connect(self._socket, ("127.0.0.1", self._port))
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._socket.close()

    @property
    def local_port(self) -> int:
        return int(self._socket.getsockname()[1])

    async def send(self, data: bytes) -> None:
        await asyncio.get_running_loop().sock_sendall(self._socket, data)

    async def send_frames(self, *bodies: bytes) -> None:
        await self.send(b"".join(map(framed, bodies)))

    def end(self) -> None:
        """Half-closes the connection: sends no more."""
        self._socket.shutdown(socket.SHUT_WR)

    def reset(self) -> None:
        """Closes with a TCP reset."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._socket.close()

    async def receive_some(self) -> bytes:
        """Returns the next bytes; none when the broker has closed the connection."""
        async with asyncio.timeout(TIMEOUT_SECONDS):
            try:
                return await asyncio.get_running_loop().sock_recv(self._socket, 1 << 20)
            except ConnectionResetError:
                return b""

    async def receive_exactly(self, count: int) -> bytes:
        parts: list[bytes] = []
        while count:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                part = await asyncio.get_running_loop().sock_recv(self._socket, min(count, 1 << 20))
            assert part, "the broker closed the connection"
            parts.append(part)
            count -= len(part)
        return b"".join(parts)

    async def receive_frame(self) -> bytes:
        (size,) = struct.unpack(">i", await self.receive_exactly(4))
        return await self.receive_exactly(size)

    async def receive_frames(self, count: int) -> list[bytes]:
        return [await self.receive_frame() for _ in range(count)]

    async def is_closed_by_the_broker(self) -> bool:
        """Reads until the broker closes the connection."""
        while await self.receive_some():
            pass
        return True


async def until(condition: Callable[[], bool]) -> None:
    """Returns as soon as the condition holds."""
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while not condition():  # noqa: ASYNC110 - the condition has no event
            await asyncio.sleep(0.001)


@dataclass(frozen=True, slots=True)
class RunningServer:
    server: SocketServer
    port: int

    def client(self, receive_buffer_bytes: int = 0) -> RawClient:
        return RawClient(self.port, receive_buffer_bytes)


class OpenServer(Protocol):
    def __call__(
        self, serve: Serve, limits: ConnectionLimits | None = None
    ) -> Awaitable[RunningServer]: ...
