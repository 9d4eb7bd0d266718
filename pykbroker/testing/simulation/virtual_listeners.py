"""Ports of simulated hosts on which somebody listens."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from pykbroker.address import Address
from pykbroker.transport.listener import Listener

if TYPE_CHECKING:
    from collections.abc import Callable

    from pykbroker.testing.simulation.connection import End


class Door:
    """Newcomers wait outside while nobody accepts."""

    def __init__(self, place: tuple[str, int], accept: Callable[[End], None]) -> None:
        self.place = place
        self.accept = accept
        self.is_open = True
        self._outside: list[End] = []

    def knock(self, newcomer: End) -> None:
        if self.is_open:
            self.accept(newcomer)
        else:
            self._outside.append(newcomer)

    def shut(self) -> None:
        self.is_open = False

    def open(self) -> None:
        self.is_open = True
        while self.is_open and self._outside:
            self.accept(self._outside.pop(0))

    def close(self) -> None:
        for newcomer in self._outside:
            newcomer.abort()
        self._outside.clear()


class VirtualListener(Listener):
    """A broker's listener on a simulated host."""

    def __init__(self, name: str, door: Door, close: Callable[[], None]) -> None:
        host, port = door.place
        super().__init__(name, Address(host=host, port=port), [])
        self._door = door
        self._close = close
        door.accept = self._accepted
        door.shut()

    def open(self, backlog_max: int, newcomer: Any, exhausted: Any) -> None:
        del backlog_max, exhausted  # there is room for everybody
        self._newcomer = newcomer
        self.resume()

    def pause(self) -> None:
        self._door.shut()

    def resume(self) -> None:
        if self._newcomer is not None and not self._door.is_open:
            self._door.open()

    def close(self) -> None:
        self._door.shut()
        self._close()

    def _accepted(self, end: End) -> None:
        assert self._newcomer is not None
        host, port = end.other.place
        newcomer: Any = self._newcomer  # takes what it was given to the loop, whatever it is
        newcomer(end, host, port, self)


class VirtualServer(asyncio.AbstractServer):
    """What `loop.create_server` gives, for services other than the broker."""

    def __init__(self, loop: asyncio.AbstractEventLoop, protocol_factory: Any) -> None:
        self._loop = loop
        self._protocol_factory = protocol_factory
        self._closed = loop.create_future()
        self._close: Callable[[], None] | None = None

    def on_close(self, close: Callable[[], None]) -> None:
        self._close = close

    def accept(self, end: End) -> None:
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
        """It does already."""

    async def serve_forever(self) -> None:
        try:
            await self._closed
        finally:
            self.close()

    async def wait_closed(self) -> None:
        await asyncio.shield(self._closed)
