"""The contract between a connection and the code that serves its requests."""

from collections.abc import Awaitable, Callable, Generator, Sequence
from typing import Any, Generic, TypeAlias, TypeVar

from pykbroker.apis.peer import Peer
from pykbroker_protocol.late_dataclass import dataclass
from pykbroker_protocol.source import MalformedMessage

Buffer: TypeAlias = bytes | bytearray | memoryview
"""A run of bytes; a memoryview must count in bytes (format B)."""

Ready: TypeAlias = Sequence[Buffer] | None
"""An answer without its size prefix, or None: this request is not answered (acks=0)."""


T = TypeVar("T")


class Deferred(Generic[T]):
    """Awaits `follow(first)`, a coroutine that is made only when this is awaited.

    A coroutine that is made and dropped is an error to Python, and so is one that another coroutine
    was given before the task of that one was cancelled. This can be dropped after `close`, which
    closes what it was given.
    """

    __slots__ = ("_first", "_follow", "mutes")

    def __init__(
        self, first: Any, follow: Callable[[Any], Awaitable[T]], *, mutes: bool = False
    ) -> None:
        self._first = first
        self._follow = follow
        self.mutes = mutes
        """Whether no further request of the connection is served before this is answered."""

    def __await__(self) -> Generator[Any, Any, T]:
        return self._follow(self._first).__await__()

    def close(self) -> None:
        close_unawaited(self._first)


def close_unawaited(answer: Any) -> None:
    """Closes a coroutine or generator, or an object that holds one, that will not be awaited.

    Without effect on those that have ended.
    """
    close = getattr(answer, "close", None)  # futures and tasks have none
    if close is not None:
        close()


@dataclass(slots=True)
class Waiting:
    """An answer that is not there yet.

    The awaitable belongs to the connection from here on: it is cancelled when the connection is
    lost, so work which must outlive the peer has to be shielded by the handler.
    """

    awaitable: Awaitable[Ready]
    # False: nothing further of this connection is served until this is answered (a muted channel).
    pipelined: bool
    # True: nobody but the peer cares (a waiting fetch), so it is cancelled as soon as the peer
    # has stopped sending. False: a half-closed connection stays open until the answer has left.
    answer_only: bool = False


Answer: TypeAlias = Ready | Waiting

Serve: TypeAlias = Callable[[memoryview, Peer], Answer]
"""Takes a frame without its size prefix. The frame is writable and belongs to the handler."""


class ProtocolViolation(Exception):
    """The peer does not speak the protocol; its connection is closed for this reason."""

    def __init__(self, reason: str, last_bytes: bytes = b"") -> None:
        super().__init__(reason)
        self.reason = reason
        self.last_bytes = last_bytes
        """Sent before the connection is closed, whatever a peer may make of them."""


def unreadable(frame: memoryview, error: MalformedMessage) -> ProtocolViolation:
    """Names the field and the byte at which the frame goes wrong, for the log."""
    from pykbroker_protocol.explain import first_fault  # noqa: PLC0415  # loads construct

    return ProtocolViolation(f"{error}; {first_fault(frame)}")
