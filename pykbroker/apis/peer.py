"""The client program at the other end of a connection."""

from __future__ import annotations

from typing import Any, Protocol


class Repeats(Protocol):
    """The requests that a connection has sent before, and that a fast path serves."""

    def answer(self, frame: memoryview) -> Any:
        """An `Answer`; None, without side effects, if the general path must serve the request."""


class Peer:
    """A connected client, as request handlers see it."""

    __slots__ = (
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

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"
