"""A broker on its own disk and clients without sockets."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from pykbroker.apis.answers import Ready, Waiting
from pykbroker.apis.dispatch import Dispatcher
from pykbroker.apis.peer import Peer
from pykbroker.broker import Broker
from pykbroker.clock import SystemClock
from pykbroker.environment import Environment
from pykbroker.settings import load_settings
from pykbroker_protocol.catalog import response_of
from pykbroker_protocol.compiler import decode
from pykbroker_protocol.frame import read_response_header, write_request

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable
    from pathlib import Path

    from pykbroker_protocol.message import Message
    from pykbroker_storage.filesystem import FileSystem

TIMEOUT_SECONDS = 60


class NoUpkeep(SystemClock):
    """A clock that never runs periodic work; tests run it themselves."""

    async def sleep(self, seconds: float) -> None:
        del seconds
        await asyncio.Event().wait()


@asynccontextmanager
async def broker_on(
    disk: FileSystem, directory: Path, **properties: object
) -> AsyncIterator[Broker]:
    given = {name.replace("_", "."): str(value) for name, value in properties.items()}
    settings = load_settings(
        {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(directory), **given}
    )
    broker = Broker(settings, Environment(clock=NoUpkeep(), filesystem=disk))
    async with asyncio.timeout(TIMEOUT_SECONDS):
        await broker.begin()
        try:
            yield broker
        finally:
            await broker.stop()


class Client:
    """A connection without a socket."""

    def __init__(self, broker: Broker) -> None:
        self._dispatcher = Dispatcher(broker.node, broker.environment.request_observer)
        self.peer = Peer(host="127.0.0.1", port=1, listener="PLAINTEXT", connection_id=1)

    def ask(self, request: Message, version: int) -> Any:
        """Returns the response, or its future if it is pending."""
        frame = b"".join(write_request(request, version, 0, "client"))
        answer = self._dispatcher.serve(memoryview(bytearray(frame)), self.peer)
        if isinstance(answer, Waiting):
            return asyncio.ensure_future(later(request, version, answer.awaitable))
        return read(request, version, answer)


async def answer_of(answer: Any) -> Any:
    return await answer if isinstance(answer, asyncio.Future) else answer


async def later(request: Message, version: int, answer: Awaitable[Ready]) -> Any:
    return read(request, version, await answer)


def read(request: Message, version: int, answer: Ready) -> Any:
    if answer is None:
        return None
    response = response_of(type(request).api)
    assert response is not None
    frame = b"".join(answer)
    _, position = read_response_header(frame, response, version)
    return decode(response, version, frame, position)
