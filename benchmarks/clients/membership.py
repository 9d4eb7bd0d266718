"""Common parts of group members of both protocols: the connection, and a view of the group."""

import asyncio
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self, cast

from benchmarks.groups import AnyMessage, framed, read_answer
from pykbroker_protocol.message import Message

# Shorter than in real clients, so that the broker is measured and not the interval.
HEARTBEAT_SECONDS = 0.1
SESSION_TIMEOUT_MS = 45_000
REBALANCE_TIMEOUT_MS = 60_000
_SIZE_BYTES = 4


class RefusedError(RuntimeError):
    """The coordinator rejected a valid request of a member."""


class Peer(asyncio.Protocol):
    """A connection to the coordinator; responses arrive in request order."""

    def __init__(self) -> None:
        self._received = bytearray()
        self._asked: deque[asyncio.Future[bytes]] = deque()

    @classmethod
    async def connect(cls, port: int) -> Self:
        loop = asyncio.get_running_loop()
        _, peer = await loop.create_connection(cls, "127.0.0.1", port)
        return peer

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._received += data
        while len(self._received) >= _SIZE_BYTES:
            size = _SIZE_BYTES + int.from_bytes(self._received[:_SIZE_BYTES], "big")
            if len(self._received) < size:
                return
            asked = self._asked.popleft()
            if not asked.done():
                asked.set_result(bytes(self._received[:size]))
            del self._received[:size]

    def connection_lost(self, exc: Exception | None) -> None:
        for asked in self._asked:
            if not asked.done():
                asked.set_exception(exc or ConnectionResetError("the broker closed a connection"))

    async def ask(self, request: Message, version: int, answer: type[AnyMessage]) -> AnyMessage:
        future = asyncio.get_running_loop().create_future()
        self._asked.append(future)
        self._transport.write(framed(request, version))
        return read_answer(await future, answer, version)

    def close(self) -> None:
        self._transport.close()


@dataclass(slots=True, kw_only=True)
class Group:
    """Generation and number of partitions of each member, as received by the members."""

    name: str
    topic: str
    partitions: int
    _settled: dict["Member", tuple[int, int]] = field(default_factory=dict)
    _members: int = 0
    _stable: asyncio.Future[float] | None = None

    def expect(self, members: int) -> asyncio.Future[float]:
        """Returns a future of the time at which the members agree on a balanced assignment."""
        self._members = members
        self._stable = asyncio.get_running_loop().create_future()
        return self._stable

    def settled(self, member: "Member", generation: int, partitions: int) -> None:
        self._settled[member] = generation, partitions
        assert self._stable is not None
        if len(self._settled) == self._members and not self._stable.done():
            generations, shares = zip(*self._settled.values(), strict=True)
            is_even = max(shares) - min(shares) <= 1
            if is_even and len(set(generations)) == 1 and sum(shares) == self.partitions:
                self._stable.set_result(time.perf_counter())

    def unsettled(self, member: "Member") -> None:
        self._settled.pop(member, None)


class Member(ABC):
    """A group member. `run` joins and stays in the group until it is cancelled."""

    def __init__(self, group: Group, peer: Peer) -> None:
        self.group = group
        self.peer = peer
        self.member_id = ""
        self.joined_at = 0.0

    @abstractmethod
    async def run(self) -> None: ...

    @staticmethod
    @abstractmethod
    async def leave(members: Sequence["Member"]) -> None:
        """Removes all members from the group, so that no session times out later."""
