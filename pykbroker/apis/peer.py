"""What the broker knows about the program at the other end of a connection."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

WhenGone: TypeAlias = Callable[[], None]


class Repeats(Protocol):
    """The requests that a connection has sent before, and that a fast path serves."""

    def answer(self, frame: memoryview) -> Any:
        """An `Answer`; None, without side effects, if the general path must serve the request."""


class Peer:
    """One connected program, as the handlers of its requests see it."""

    __slots__ = (
        "_when_gone",
        "client_id",
        "connection_id",
        "gone",
        "host",
        "listener",
        "port",
        "repeats",
        "software_name",
        "software_version",
    )

    def __init__(self, *, host: str, port: int, listener: str, connection_id: int) -> None:
        self.host = host
        self.port = port
        self.listener = listener
        self.connection_id = connection_id
        self.client_id: str | None = None
        self.software_name: str | None = None
        self.software_version: str | None = None
        self.repeats: Repeats | None = None
        self.gone = False
        # A set would cost every idle connection 200 bytes; few connections ever need one.
        self._when_gone: set[WhenGone] | None = None

    def when_gone(self, callback: WhenGone) -> None:
        """Calls back once, when the connection is lost; at once if it already is."""
        if self.gone:
            callback()
            return
        if self._when_gone is None:
            self._when_gone = set()
        self._when_gone.add(callback)

    def forget(self, callback: WhenGone) -> None:
        """The callback is no longer wanted."""
        if self._when_gone is not None:
            self._when_gone.discard(callback)

    def leave(self) -> list[WhenGone]:
        """Marks the peer as gone and gives back whom to tell; the connection calls this."""
        self.gone = True
        callbacks, self._when_gone = self._when_gone, None
        return list(callbacks or ())

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"
