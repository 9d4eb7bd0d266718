"""The contract between a connection and the code that serves its requests."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from pykbroker.apis.peer import Peer
from pykbroker_protocol.late_dataclass import dataclass

Buffer: TypeAlias = bytes | bytearray | memoryview
"""A run of bytes; a memoryview must count in bytes (format B)."""

Ready: TypeAlias = Sequence[Buffer] | None
"""An answer without its size prefix, or None: this request is not answered (acks=0)."""


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
