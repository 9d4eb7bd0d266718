"""Listening ports of simulated hosts."""

from __future__ import annotations

import asyncio
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

from pykbroker.address import Address
from pykbroker.transport.listener import Listener

if TYPE_CHECKING:
    from collections.abc import Callable

    from pykbroker.testing.simulation.connection import Endpoint


class ListeningPort:
    """Accepts connections on the host that listens, or queues them in a backlog while paused."""

    def __init__(self, address: tuple[str, int], accept: Callable[[Endpoint], None]) -> None:
        self.address = address
        self.accept = accept
        self.is_accepting = True
        self._backlog: list[Endpoint] = []
        self._context = copy_context()
        self._loop = asyncio.get_running_loop()

    def connect(self, newcomer: Endpoint) -> None:
        if self.is_accepting:
            self._loop.call_soon(self._accept, newcomer, context=self._context.copy())
        else:
            self._backlog.append(newcomer)

    def _accept(self, newcomer: Endpoint) -> None:
        if not self.is_accepting:
            self._backlog.append(newcomer)
        elif not newcomer.is_closing():
            self.accept(newcomer)

    def pause(self) -> None:
        self.is_accepting = False

    def resume(self) -> None:
        self.is_accepting = True
        backlog, self._backlog = self._backlog, []
        for newcomer in backlog:
            self.connect(newcomer)

    def close(self) -> None:
        for newcomer in self._backlog:
            newcomer.abort()
        self._backlog.clear()


class VirtualListener(Listener):
    """A broker's listener on a simulated host."""

    def __init__(self, name: str, listening: ListeningPort, close: Callable[[], None]) -> None:
        host, port = listening.address
        super().__init__(name, Address(host=host, port=port), [])
        self._listening = listening
        self._close = close
        listening.accept = self._accepted
        listening.pause()

    def open(self, backlog_max: int, newcomer: Any, exhausted: Any) -> None:
        del backlog_max, exhausted  # no limits
        self._newcomer = newcomer
        self.resume()

    def pause(self) -> None:
        self._listening.pause()

    def resume(self) -> None:
        if self._newcomer is not None and not self._listening.is_accepting:
            self._listening.resume()

    def close(self) -> None:
        self._listening.pause()
        self._close()

    def _accepted(self, end: Endpoint) -> None:
        assert self._newcomer is not None
        host, port = end.other.address
        newcomer: Any = self._newcomer  # expects a socket and only passes it to the loop
        newcomer(end, host, port, self)


class VirtualServer(asyncio.AbstractServer):
    """The server of `loop.create_server`, for services other than the broker."""

    def __init__(self, loop: asyncio.AbstractEventLoop, protocol_factory: Any) -> None:
        self._loop = loop
        self._protocol_factory = protocol_factory
        self._closed = loop.create_future()
        self._close: Callable[[], None] | None = None

    def on_close(self, close: Callable[[], None]) -> None:
        self._close = close

    def accept(self, end: Endpoint) -> None:
        end.begin(self._protocol_factory())

    def close(self) -> None:
        if self._close is not None:
            self._close()
            self._close = None
            self._closed.set_result(None)

    def close_clients(self) -> None:
        """Connections end with their hosts; required since Python 3.13."""

    def abort_clients(self) -> None:
        """As `close_clients`."""

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return self._loop

    def is_serving(self) -> bool:
        return self._close is not None

    async def start_serving(self) -> None:
        """Does nothing: the server accepts connections from its creation on."""

    async def serve_forever(self) -> None:
        try:
            await self._closed
        finally:
            self.close()

    async def wait_closed(self) -> None:
        await asyncio.shield(self._closed)
