"""Tests of connections run on both event loops, against a network server or a scripted broker."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from pykbroker.address import Address
from tests.transport.conftest import open_server, pytest_asyncio_loop_factories

__all__ = ["open_server", "pytest_asyncio_loop_factories"]

HOST = "127.0.0.1"

Script = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def scripted_broker(script: Script) -> AsyncIterator[Address]:
    """Listens on a free port and runs the script for each connection."""
    running: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        running.add(task)
        await script(reader, writer)
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(serve, HOST, 0, family=socket.AF_INET)
    try:
        yield Address(HOST, server.sockets[0].getsockname()[1])
        await asyncio.gather(*running)
    finally:
        server.close()
        await server.wait_closed()
