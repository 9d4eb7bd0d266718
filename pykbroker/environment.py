"""The environment of a broker as one frozen value: clock, randomness, disk, network and observers.

A broker reaches the outside world only through this value. The embedded broker and the simulated
broker are `Broker` with another environment: they override no method and patch no attribute.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from pykbroker.apis.offer import EVERYTHING
from pykbroker.clock import SystemClock, SystemRandomness
from pykbroker.transport.listener import bind
from pykbroker_protocol.late_dataclass import dataclass, field
from pykbroker_storage.filesystem import FileSystem

if TYPE_CHECKING:
    from collections.abc import Callable

    from pykbroker.apis.observer import RequestObserver
    from pykbroker.apis.offer import Offer
    from pykbroker.clock import Clock, Randomness
    from pykbroker.coordinators.coordinated_log import DecisionObserver
    from pykbroker.partitions.cleaning import Rewriter
    from pykbroker.transport.limits import ConnectionLimits
    from pykbroker.transport.listener import Listener


class Network(Protocol):
    """Opens listeners and connections."""

    async def listen(self, name: str, host: str, port: int, limits: ConnectionLimits) -> Listener:
        """Binds an address; port 0 selects a free port. Raises CannotListen."""
        ...

    async def connect(
        self, new_protocol: Callable[[], asyncio.BaseProtocol], host: str, port: int
    ) -> asyncio.BaseTransport:
        """Connects to another node. Raises OSError."""
        ...


class SystemNetwork:
    """The sockets of this host."""

    __slots__ = ()

    async def listen(self, name: str, host: str, port: int, limits: ConnectionLimits) -> Listener:
        return await bind(name, host, port, limits)

    async def connect(
        self, new_protocol: Callable[[], asyncio.BaseProtocol], host: str, port: int
    ) -> asyncio.BaseTransport:
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_connection(new_protocol, host, port)
        return transport


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """Everything outside of the broker that the broker depends on."""

    clock: Clock = SystemClock()
    randomness: Randomness = SystemRandomness()
    filesystem: FileSystem = field(default_factory=FileSystem)
    """The disk. Data on one that is not durable is never flushed."""
    new_compaction_worker: Callable[[], Rewriter] | None = None
    """None: a process compacts the logs."""
    network: Network = SystemNetwork()
    offer: Offer = EVERYTHING
    """The APIs and versions that ApiVersions advertises."""
    decision_observer: DecisionObserver | None = None
    """Receives each reason that a coordinator writes to the operator's log."""
    request_observer: RequestObserver | None = None
    """Wraps the handlers of requests, for recording and fault injection."""
    busy_polls: bool = False
    """Poll the sockets for a moment before sleeping; for a process with a CPU of its own."""
