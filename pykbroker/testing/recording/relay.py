"""A proxy for all brokers of a cluster: each broker has its own address on this machine."""

from __future__ import annotations

import asyncio
import struct
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from pykbroker.testing.recording.addresses import (
    ANSWERS_WITH_ADDRESSES,
    with_addresses_replaced,
)
from pykbroker_protocol.compiler import MalformedMessage
from pykbroker_protocol.frame import RequestHeader, read_request_header

if TYPE_CHECKING:
    from collections.abc import Iterable

Address = tuple[str, int]

SIZE: Final = struct.Struct(">i")
CORRELATION: Final = struct.Struct(">i")
FRAME_BYTES_MAX: Final = 256 * 1024 * 1024
STREAM_BYTES_MAX: Final = 1024 * 1024


class Passing(NamedTuple):
    """A frame between a client and a broker, without its size."""

    connection: int
    broker: Address
    header: RequestHeader
    """The header of the request, also for its response."""
    frame: bytes
    is_request: bool


class Relay:
    """Replaces broker addresses in responses by addresses on which the relay listens.

    Subclasses override `see`, `change` or `cut` to observe, change or drop frames.
    """

    def __init__(self, host: str = "127.0.0.1") -> None:
        self._host = host
        self._servers: dict[Address, asyncio.Server] = {}
        self._open: set[RelayedConnection] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._connections = 0

    # --- for subclasses

    def see(self, passing: Passing) -> None:
        """Called with each request as sent, and each response before addresses are replaced."""

    def change(self, passing: Passing) -> bytes:
        """Returns the frame to forward instead."""
        return passing.frame

    async def cut(self, passing: Passing, writer: asyncio.StreamWriter) -> bool:
        """Returns True to end the connection instead of forwarding the frame."""
        del passing, writer
        return False

    # --- listening

    async def listen_for(self, broker: Address, port: int = 0) -> Address:
        """Returns the relay's address of a broker. Starts to listen at the first call."""
        if broker not in self._servers:

            async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                task = asyncio.current_task()
                assert task is not None
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
                with suppress(asyncio.CancelledError):  # the loop ends
                    await self._serve(broker, reader, writer)

            server = await asyncio.start_server(serve, self._host, port, limit=STREAM_BYTES_MAX)
            self._servers.setdefault(broker, server)
            if self._servers[broker] is not server:
                server.close()
        return self.address_of(broker)

    def address_of(self, broker: Address) -> Address:
        """The relay's address of a broker."""
        host, port = self._servers[broker].sockets[0].getsockname()[:2]
        return host, port

    @property
    def brokers(self) -> Iterable[Address]:
        return tuple(self._servers)

    async def cut_all(self) -> None:
        """Resets all connections."""
        for connection in tuple(self._open):
            connection.abort()

    async def close(self) -> None:
        for server in self._servers.values():
            server.close()
        await self.cut_all()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(
        self, broker: Address, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            up_reader, up_writer = await asyncio.open_connection(*broker, limit=STREAM_BYTES_MAX)
        except OSError:
            writer.transport.abort()
            return
        self._connections += 1
        connection = RelayedConnection(
            relay=self,
            number=self._connections,
            address=broker,
            client=(reader, writer),
            broker=(up_reader, up_writer),
        )
        self._open.add(connection)
        try:
            await connection.run()
        finally:
            self._open.discard(connection)


@dataclass(slots=True, eq=False, kw_only=True)
class RelayedConnection:
    """A connection of a client and the corresponding connection to the broker."""

    relay: Relay
    number: int
    address: Address
    client: tuple[asyncio.StreamReader, asyncio.StreamWriter]
    broker: tuple[asyncio.StreamReader, asyncio.StreamWriter]
    pending: dict[int, RequestHeader] = field(default_factory=dict)

    async def run(self) -> None:
        """Forwards frames until one side closes, then closes the other side."""
        tasks = [
            asyncio.create_task(self._pass_requests()),
            asyncio.create_task(self._pass_answers()),
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self.broker[1].close()
            self.client[1].close()

    def abort(self) -> None:
        for _, writer in (self.client, self.broker):
            writer.transport.abort()

    async def _pass_requests(self) -> None:
        reader, writer = self.client[0], self.broker[1]
        with suppress(OSError, asyncio.IncompleteReadError):
            while True:
                frame = await read_frame(reader)
                header = header_of(frame)
                if header is not None:
                    self.pending[header.correlation_id] = header
                    passing = self._seen(header, frame, is_request=True)
                    if await self.relay.cut(passing, writer):
                        return
                    frame = passing.frame
                await send_frame(writer, frame)

    async def _pass_answers(self) -> None:
        reader, writer = self.broker[0], self.client[1]
        with suppress(OSError, asyncio.IncompleteReadError):
            while True:
                frame = await read_frame(reader)
                header = self.pending.pop(CORRELATION.unpack_from(frame)[0], None)
                if header is not None:
                    passing = self._seen(header, frame, is_request=False)
                    frame = await self._with_own_addresses(passing)
                    if await self.relay.cut(passing._replace(frame=frame), writer):
                        return
                await send_frame(writer, frame)

    def _seen(self, header: RequestHeader, frame: bytes, *, is_request: bool) -> Passing:
        passing = Passing(self.number, self.address, header, frame, is_request)
        if is_request:
            self.relay.see(passing)
        passing = passing._replace(frame=self.relay.change(passing))
        if not is_request:
            self.relay.see(passing)
        return passing

    async def _with_own_addresses(self, passing: Passing) -> bytes:
        header = passing.header
        if header.api_key not in ANSWERS_WITH_ADDRESSES:
            return passing.frame
        return await with_addresses_replaced(
            passing.frame, header.api_key, header.api_version, self.relay.listen_for
        )


def header_of(frame: bytes) -> RequestHeader | None:
    """Returns None for a malformed header; the broker decides about such a request."""
    try:
        return read_request_header(frame)
    except MalformedMessage:
        return None


async def read_frame(reader: asyncio.StreamReader) -> bytes:
    (size,) = SIZE.unpack(await reader.readexactly(SIZE.size))
    if not CORRELATION.size <= size <= FRAME_BYTES_MAX:
        raise ConnectionError(f"invalid frame size {size}")
    return await reader.readexactly(size)


async def send_frame(writer: asyncio.StreamWriter, frame: bytes) -> None:
    writer.writelines((SIZE.pack(len(frame)), frame))
    await writer.drain()
