"""The interface between connections and the code that serves their requests."""

from collections.abc import Awaitable, Callable, Generator, Sequence
from typing import Any, Generic, TypeAlias, TypeVar

from pykbroker.apis.peer import Peer
from pykbroker_protocol.late_dataclass import dataclass
from pykbroker_protocol.message import Message
from pykbroker_protocol.source import MalformedMessage

Buffer: TypeAlias = bytes | bytearray | memoryview
"""A memoryview must have items of one byte (format B)."""

Ready: TypeAlias = Sequence[Buffer] | None
"""A response without its size prefix, or None for a request without response (acks=0)."""


T = TypeVar("T")


class Deferred(Generic[T]):
    """Awaits `follow(first)`; the coroutine is created only when this object is awaited.

    Python reports coroutines that are never awaited, for example after their task was cancelled
    before its first step. This object can be dropped after `close`, which closes `first`.
    """

    __slots__ = ("_first", "_follow", "expected", "mutes")

    def __init__(
        self,
        first: Any,
        follow: Callable[[Any], Awaitable[T]],
        *,
        mutes: bool = False,
        expected: Message | None = None,
    ) -> None:
        self._first = first
        self._follow = follow
        self.mutes = mutes
        """True: the connection serves no further request before this response."""
        self.expected = expected
        """The response, unless the wait for it ends with an error."""

    def __await__(self) -> Generator[Any, Any, T]:
        return self._follow(self._first).__await__()

    def close(self) -> None:
        close_unawaited(self._first)


def close_unawaited(answer: Any) -> None:
    """Closes a coroutine, generator or `Deferred` that will not be awaited.

    It has no effect on one that has ended.
    """
    close = getattr(answer, "close", None)  # futures and tasks have none
    if close is not None:
        close()


@dataclass(slots=True)
class Waiting:
    """A pending response.

    The connection owns the awaitable and cancels it on disconnect. A handler shields work that must
    complete anyway.
    """

    awaitable: Awaitable[Ready]
    # False: the connection serves no further request before this response (a muted channel).
    pipelined: bool
    # True: a request without other effect (a waiting fetch), cancelled when the peer stops sending.
    # False: a half-closed connection stays open until the response is sent.
    answer_only: bool = False


Answer: TypeAlias = Ready | Waiting

Serve: TypeAlias = Callable[[memoryview, Peer], Answer]
"""Serves a frame without its size prefix. The frame is writable; the handler owns it."""


class ProtocolViolation(Exception):
    """The peer violates the protocol; the connection is closed and the reason is logged."""

    def __init__(self, reason: str, last_bytes: bytes = b"") -> None:
        super().__init__(reason)
        self.reason = reason
        self.last_bytes = last_bytes
        """Bytes sent before the connection is closed."""


def unreadable(frame: memoryview, error: MalformedMessage) -> ProtocolViolation:
    """Returns a ProtocolViolation that names the first malformed field and byte for the log."""
    from pykbroker_protocol.explain import first_fault  # noqa: PLC0415  # loads construct

    return ProtocolViolation(first_fault(frame, str(error)))
