"""Replays a recorded session on sockets, with one address per recorded broker."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from pykbroker.broker import CannotStart
from pykbroker.testing.recording.addresses import (
    ANSWERS_WITH_ADDRESSES,
    with_addresses_replaced,
)
from pykbroker.testing.recording.relay import (
    STREAM_BYTES_MAX,
    Address,
    header_of,
    read_frame,
    send_frame,
)
from pykbroker.testing.recording.session import NoRecording, address_text, read_session
from pykbroker.testing.replaying.differences import Difference, ReplayDiffers, Unrecorded
from pykbroker.testing.replaying.script import Reply, Script
from pykbroker_protocol.api_keys import ApiKey
from pykbroker_protocol.compiler import MalformedMessage
from pykbroker_protocol.frame import write_response
from pykbroker_protocol.records.corrupt import CorruptBatch

if TYPE_CHECKING:
    import os

    from pykbroker_protocol.frame import RequestHeader

HOST: Final = "127.0.0.1"
EMPTY_FETCH_SECONDS: Final = 0.1
"""Delay of an empty Fetch response."""


ORDER_SECONDS_MAX: Final = 2.0
"""Maximum wait of a response for requests that the recording has before it."""
POLL_INTERVAL_SECONDS: Final = 0.002
REQUESTS_IN_FLIGHT_MAX: Final = 100


class ReceivedRequest(NamedTuple):
    header: RequestHeader
    frame: bytes
    reply: Reply


class Replay:
    """Serves clients from a recording and collects differences."""

    def __init__(self, file: str | os.PathLike[str]) -> None:
        self._file = Path(file)
        self._script: Script | None = None
        self._servers: dict[Address, asyncio.Server] = {}
        self._connections: set[asyncio.Task[None]] = set()

    # --- for the test

    @property
    def differences(self) -> list[Difference]:
        """Requests that differ from the recording, each once."""
        return [] if self._script is None else list(self._script.differences)

    def check(self) -> None:
        """Raises ReplayDiffers if a request differed, or if recorded changes are missing."""
        if self._script is not None:
            self._script.check()

    def conclude(self, error: BaseException | None) -> None:
        """Checks at the end of a test. An exception of the test gets the differences as a note."""
        if error is None:
            self.check()
        elif self._script is not None and self._script.differences:
            error.add_note(str(ReplayDiffers(self._file.name, self._script.differences)))

    # --- for the broker

    async def open(self) -> tuple[str, int]:
        """Starts the replay from the beginning and returns bootstrap address and first port.

        Raises CannotStart if the file is not a recording.
        """
        try:
            session = read_session(self._file)
        except (OSError, NoRecording) as reason:
            raise CannotStart(f"cannot replay: {reason}") from reason
        self._script = Script(session, self._file.name)
        addresses = [await self.listen_for(it) for it in session.upstream]
        if not addresses:
            raise CannotStart(f"cannot replay: {self._file} lists no brokers")
        return ",".join(map(address_text, addresses)), addresses[0][1]

    async def listen_for(self, broker: Address) -> Address:
        if broker not in self._servers:
            server = await asyncio.start_server(self._serve, HOST, 0, limit=STREAM_BYTES_MAX)
            self._servers.setdefault(broker, server)
            if self._servers[broker] is not server:
                server.close()
        host, port = self._servers[broker].sockets[0].getsockname()[:2]
        return host, port

    async def close(self) -> None:
        for server in self._servers.values():
            server.close()
        self._servers.clear()
        connections = tuple(self._connections)
        for task in connections:
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                await self._serve_connection(reader, writer)
        finally:
            self._connections.discard(task)
            writer.close()

    async def _serve_connection(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Reads requests as they arrive and sends responses in request order."""
        received: asyncio.Queue[ReceivedRequest] = asyncio.Queue(REQUESTS_IN_FLIGHT_MAX)
        tasks = [
            asyncio.create_task(self._receive(reader, received)),
            asyncio.create_task(self._respond(received, writer)),
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _receive(
        self, reader: asyncio.StreamReader, received: asyncio.Queue[ReceivedRequest]
    ) -> None:
        """Returns when the client disconnects or sends an unrecorded request."""
        assert self._script is not None, "open() runs before the first connection"
        while True:
            frame = await read_frame(reader)
            header = header_of(frame)
            if header is None:
                self._script.differences.add(Difference(what="a frame that is not a request"))
                return
            try:
                reply = self._script.reply(header, frame)
            except Unrecorded as unrecorded:
                self._script.differences.add(unrecorded.difference)
                return
            except (MalformedMessage, CorruptBatch) as reason:
                self._script.differences.add(Difference(what=f"a malformed request: {reason}"))
                return
            await received.put(ReceivedRequest(header, frame, reply))

    async def _respond(
        self, received: asyncio.Queue[ReceivedRequest], writer: asyncio.StreamWriter
    ) -> None:
        assert self._script is not None, "open() runs before the first connection"
        while True:
            header, frame, reply = await received.get()
            if reply.is_empty_fetch:
                await asyncio.sleep(EMPTY_FETCH_SECONDS)
                reply = self._script.reply(header, frame)
            else:
                await self._in_order(self._script, reply)
            if reply.answer is not None:
                await send_frame(writer, await self._with_own_addresses(header, reply))

    async def _in_order(self, script: Script, reply: Reply) -> None:
        """Waits up to ORDER_SECONDS_MAX for requests that the recording has before the response."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + ORDER_SECONDS_MAX
        while missing := script.outstanding(reply.lines_between):
            if loop.time() >= deadline:
                script.give_up(missing)
            await asyncio.sleep(POLL_INTERVAL_SECONDS)

    async def _with_own_addresses(self, header: RequestHeader, reply: Reply) -> bytes:
        assert reply.answer is not None
        written = write_response(reply.answer, reply.version, header.correlation_id)
        frame = b"".join(written)
        if header.api_key not in ANSWERS_WITH_ADDRESSES - {ApiKey.PRODUCE, ApiKey.FETCH}:
            return frame
        return await with_addresses_replaced(
            frame, header.api_key, header.api_version, self.listen_for
        )
