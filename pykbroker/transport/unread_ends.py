"""Finds peers that have closed their connection while nothing is read from it.

Reading is paused as long as a request cannot be served, for instance behind a Fetch that waits. The
event loop does not report the end of such a peer, so the kernel is asked now and then.
"""

from __future__ import annotations

import select
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    import asyncio

LOOK_INTERVAL_S: Final = 1.0

PEER_SENDS_NO_MORE: Final = getattr(select, "POLLRDHUP", 0)
"""Reported even if unread bytes are left. Systems without it report connections that are gone."""


class Unread(Protocol):
    """A connection from which nothing is read at present."""

    @property
    def descriptor(self) -> int | None: ...
    def ended_unread(self, *, is_gone: bool) -> None: ...


class UnreadEnds:
    """The connections that are not read at present; looks at them once a second."""

    __slots__ = ("_connections", "_loop", "_next_look")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._connections: dict[Unread, None] = {}
        self._next_look: asyncio.TimerHandle | None = None

    def watch(self, connection: Unread) -> None:
        self._connections[connection] = None
        if self._next_look is None:
            self._next_look = self._loop.call_later(LOOK_INTERVAL_S, self._look)

    def forget(self, connection: Unread) -> None:
        self._connections.pop(connection, None)

    def stop(self) -> None:
        if self._next_look is not None:
            self._next_look.cancel()

    def look(self) -> None:
        """Tells the connections whose peers have ended."""
        if not hasattr(select, "poll"):
            return  # Windows: such connections are closed by `connections.max.idle.ms`
        poll, watched = select.poll(), {}
        for connection in self._connections:
            descriptor = connection.descriptor
            if descriptor is not None:
                poll.register(descriptor, PEER_SENDS_NO_MORE)
                watched[descriptor] = connection
        for descriptor, events in poll.poll(0):
            is_gone = bool(events & (select.POLLERR | select.POLLHUP | select.POLLNVAL))
            watched[descriptor].ended_unread(is_gone=is_gone)

    def _look(self) -> None:
        self._next_look = None
        self.look()
        if self._connections:
            self._next_look = self._loop.call_later(LOOK_INTERVAL_S, self._look)
