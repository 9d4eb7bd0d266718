"""Tests with an event loop run on uvloop and on asyncio."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest
import uvloop

from pykbroker.apis.answers import Serve
from pykbroker.transport.limits import ConnectionLimits
from pykbroker.transport.listener import bind
from pykbroker.transport.socket_server import SocketServer
from tests.transport.raw import OpenServer, RunningServer

LoopFactory = Callable[[], asyncio.AbstractEventLoop]


def pytest_asyncio_loop_factories() -> dict[str, LoopFactory]:
    return {"uvloop": uvloop.new_event_loop, "asyncio": asyncio.SelectorEventLoop}


@pytest.fixture
async def open_server() -> AsyncIterator[OpenServer]:
    """Starts socket servers on free ports and stops them after the test."""
    opened: list[SocketServer] = []

    async def open_one(serve: Serve, limits: ConnectionLimits | None = None) -> RunningServer:
        server = SocketServer(
            serve, limits or ConnectionLimits(), now_ms=lambda: 0.0, work_clock=lambda: 0.0
        )
        opened.append(server)
        listener = await bind("PLAINTEXT", "127.0.0.1", 0, server.limits)
        server.open(listener)
        return RunningServer(server, listener.address.port)

    yield open_one
    for server in opened:
        await server.stop(timeout_seconds=0)
