"""Detects that a peer has closed its connection while the broker does not read from it.

Reading is paused while a request cannot be served, for instance behind a waiting Fetch. The event
loop does not report the end of such a connection; polling the kernel once a second does.
"""

from __future__ import annotations

import select
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    import asyncio

POLL_INTERVAL_SECONDS: Final = 1.0

PEER_HALF_CLOSED: Final = getattr(select, "POLLRDHUP", 0)
"""Reported even if unread bytes remain. Other systems report only fully closed connections."""


class PausedPeer(Protocol):
    """A connection whose reading is paused."""

    @property
    def descriptor(self) -> int | None: ...
    def peer_closed(self, *, is_gone: bool) -> None: ...


class PausedPeers:
    """Polls all connections whose reading is paused."""

    __slots__ = ("_connections", "_loop", "_next_poll")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._connections: dict[PausedPeer, None] = {}
        self._next_poll: asyncio.TimerHandle | None = None

    def add(self, connection: PausedPeer) -> None:
        self._connections[connection] = None
        if self._next_poll is None:
            self._next_poll = self._loop.call_later(POLL_INTERVAL_SECONDS, self._poll_again)

    def remove(self, connection: PausedPeer) -> None:
        self._connections.pop(connection, None)

    def stop(self) -> None:
        if self._next_poll is not None:
            self._next_poll.cancel()

    def poll(self) -> None:
        """Notifies the connections whose peers have closed."""
        if not hasattr(select, "poll"):
            return  # Windows: `connections.max.idle.ms` closes such connections
        poll, polled = select.poll(), {}
        for connection in self._connections:
            descriptor = connection.descriptor
            if descriptor is not None:
                poll.register(descriptor, PEER_HALF_CLOSED)
                polled[descriptor] = connection
        for descriptor, events in poll.poll(0):
            is_gone = bool(events & (select.POLLERR | select.POLLHUP | select.POLLNVAL))
            polled[descriptor].peer_closed(is_gone=is_gone)

    def _poll_again(self) -> None:
        self._next_poll = None
        self.poll()
        if self._connections:
            self._next_poll = self._loop.call_later(POLL_INTERVAL_SECONDS, self._poll_again)
