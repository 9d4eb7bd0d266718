"""Plays a recorded session on real sockets: an address for each of its brokers."""

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
"""After which somebody who reads at the end is told that there is nothing; it asks again."""


ORDER_SECONDS_MAX: Final = 2.0
"""How long an answer waits for what was asked before it was given in the recording."""
LOOK_INTERVAL_S: Final = 0.002
REQUESTS_IN_FLIGHT_MAX: Final = 100


class Heard(NamedTuple):
    header: RequestHeader
    frame: bytes
    reply: Reply


class Replay:
    """What was recorded, and how clients have kept to it."""

    def __init__(self, file: str | os.PathLike[str]) -> None:
        self._file = Path(file)
        self._script: Script | None = None
        self._servers: dict[Address, asyncio.Server] = {}
        self._conversations: set[asyncio.Task[None]] = set()

    # --- for the test

    @property
    def differences(self) -> list[Difference]:
        """What clients have asked that was not recorded, each once."""
        return [] if self._script is None else list(self._script.differences)

    def check(self) -> None:
        """Raises ReplayDiffers, also if something recorded was not done."""
        if self._script is not None:
            self._script.check()

    def conclude(self, error: BaseException | None) -> None:
        """At the end: an error that came of differences is told of them."""
        if error is None:
            self.check()
        elif self._script is not None and self._script.differences:
            error.add_note(str(ReplayDiffers(self._file.name, self._script.differences)))

    # --- for the broker

    async def open(self) -> tuple[str, int]:
        """From the beginning of the recording; the bootstrap address, and the first port.

        Raises CannotStart.
        """
        try:
            session = read_session(self._file)
        except (OSError, NoRecording) as reason:
            raise CannotStart(f"nothing to replay: {reason}") from reason
        self._script = Script(session, self._file.name)
        addresses = [await self.listen_for(it) for it in session.upstream]
        if not addresses:
            raise CannotStart(f"nothing to replay: {self._file} names no broker")
        return ",".join(map(address_text, addresses)), addresses[0][1]

    async def listen_for(self, broker: Address) -> Address:
        if broker not in self._servers:
            server = await asyncio.start_server(self._meet, HOST, 0, limit=STREAM_BYTES_MAX)
            self._servers.setdefault(broker, server)
            if self._servers[broker] is not server:
                server.close()
        host, port = self._servers[broker].sockets[0].getsockname()[:2]
        return host, port

    async def close(self) -> None:
        for server in self._servers.values():
            server.close()
        self._servers.clear()
        conversations = tuple(self._conversations)
        for task in conversations:
            task.cancel()
        await asyncio.gather(*conversations, return_exceptions=True)

    async def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._conversations.add(task)
        try:
            with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                await self._converse(reader, writer)
        finally:
            self._conversations.discard(task)
            writer.close()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Requests are heard as they come; answers leave in their order."""
        heard: asyncio.Queue[Heard] = asyncio.Queue(REQUESTS_IN_FLIGHT_MAX)
        tasks = [
            asyncio.create_task(self._hear(reader, heard)),
            asyncio.create_task(self._speak(heard, writer)),
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _hear(self, reader: asyncio.StreamReader, heard: asyncio.Queue[Heard]) -> None:
        """Until the client goes, or asks for what was not recorded."""
        assert self._script is not None, "it is opened before anybody can connect"
        while True:
            frame = await read_frame(reader)
            header = header_of(frame)
            if header is None:
                self._script.differences.add(Difference(what="a frame that is no request"))
                return
            try:
                reply = self._script.reply(header, frame)
            except Unrecorded as unrecorded:
                self._script.differences.add(unrecorded.difference)
                return
            except (MalformedMessage, CorruptBatch) as reason:
                self._script.differences.add(Difference(what=f"a malformed request: {reason}"))
                return
            await heard.put(Heard(header, frame, reply))

    async def _speak(self, heard: asyncio.Queue[Heard], writer: asyncio.StreamWriter) -> None:
        assert self._script is not None, "likewise"
        while True:
            header, frame, reply = await heard.get()
            if reply.is_empty_fetch:
                await asyncio.sleep(EMPTY_FETCH_SECONDS)
                reply = self._script.reply(header, frame)
            else:
                await self._in_order(self._script, reply)
            if reply.answer is not None:
                await send_frame(writer, await self._with_our_addresses(header, reply))

    async def _in_order(self, script: Script, reply: Reply) -> None:
        """Waits, but not for ever, until as much has been asked as when it was recorded."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + ORDER_SECONDS_MAX
        while missing := script.still_to_come(reply.meanwhile):
            if loop.time() >= deadline:
                script.give_up(missing)
            await asyncio.sleep(LOOK_INTERVAL_S)

    async def _with_our_addresses(self, header: RequestHeader, reply: Reply) -> bytes:
        assert reply.answer is not None
        written = write_response(reply.answer, reply.version, header.correlation_id)
        frame = b"".join(written)
        if header.api_key not in ANSWERS_WITH_ADDRESSES - {ApiKey.PRODUCE, ApiKey.FETCH}:
            return frame
        return await with_addresses_replaced(
            frame, header.api_key, header.api_version, self.listen_for
        )
