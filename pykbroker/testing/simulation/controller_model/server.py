"""The listener of one controller: frames in, responses in request order out."""

from __future__ import annotations

import asyncio
import logging
from contextvars import copy_context
from typing import TYPE_CHECKING, Self, cast

from pykbroker.framing.frame_reader import SIZE
from pykbroker.testing.simulation.controller_model.requests import (
    ControllerRequests,
    MalformedFrame,
)
from pykbroker_protocol.compiler import MalformedMessage

if TYPE_CHECKING:
    from pykbroker.testing.simulation.controller_model.model import ControllerModel

logger = logging.getLogger(__name__)


class ControllerServer:
    """Serves the requests to one controller. Closes its connections when it stops."""

    @classmethod
    async def start(
        cls,
        model: ControllerModel,
        controller_id: int | None = None,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        advertised_host: str | None = None,
    ) -> Self:
        """Listens on an address; port 0 selects a free port."""
        number = model.leader_id if controller_id is None else controller_id
        server = cls(ControllerRequests(model, number))
        loop = asyncio.get_running_loop()
        listening = await loop.create_server(lambda: ControllerConnection(server), host, port)
        server.listening = listening
        if port == 0:
            port = listening.sockets[0].getsockname()[1]
        server.address = f"{advertised_host or host}:{port}"
        model.endpoints[number] = (advertised_host or host, port)
        return server

    listening: asyncio.AbstractServer
    address: str

    def __init__(self, requests: ControllerRequests) -> None:
        self.requests = requests
        self.connections: dict[ControllerConnection, None] = {}
        self.context = copy_context()
        """Connections are served in the context, and on the simulated host, of the server."""

    async def stop(self) -> None:
        self.listening.close()
        for connection in list(self.connections):
            connection.close()


class ControllerConnection(asyncio.Protocol):
    """Serves the requests of one connection one after the other, like Apache Kafka."""

    def __init__(self, server: ControllerServer) -> None:
        self._server = server
        self._received = bytearray()
        self._frames: asyncio.Queue[bytes] = asyncio.Queue()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._server.connections[self] = None
        loop = asyncio.get_running_loop()
        self._serving = loop.create_task(self._serve(), context=self._server.context.copy())

    def data_received(self, data: bytes) -> None:
        self._received += data
        while len(self._received) >= SIZE.size:
            (size,) = SIZE.unpack_from(self._received)
            end = SIZE.size + size
            if len(self._received) < end:
                return
            self._frames.put_nowait(bytes(self._received[SIZE.size : end]))
            del self._received[:end]

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._server.connections.pop(self, None)
        self._serving.cancel()

    def close(self) -> None:
        self._serving.cancel()
        self._transport.abort()

    async def _serve(self) -> None:
        try:
            while True:
                frame = await self._frames.get()
                response = b"".join(await self._server.requests.serve(memoryview(frame)))
                self._transport.write(SIZE.pack(len(response)) + response)
        except (MalformedFrame, MalformedMessage) as problem:
            logger.warning("controller model: connection closed (%s)", problem)
        except Exception:
            logger.exception("controller model: connection closed (internal error)")
        self._transport.close()
