"""Options of a connection to a broker: timeouts, bounds, and access to network and clock."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from pykbroker.clock import Clock, Randomness, SystemClock, SystemRandomness
from pykbroker_protocol.late_dataclass import dataclass, field

Connect: TypeAlias = Callable[
    [Callable[[], asyncio.BaseProtocol], str, int], Awaitable[asyncio.BaseTransport]
]
"""Connects a protocol to a host and port; raises OSError."""

TIMEOUT_SECONDS: Final = 30.0
IN_FLIGHT_MAX: Final = 100
"""As many requests of one connection as our brokers read ahead."""
RESPONSE_BYTES_MAX: Final = 128 * 1024 * 1024


async def connect_tcp(
    new_protocol: Callable[[], asyncio.BaseProtocol], host: str, port: int
) -> asyncio.BaseTransport:
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_connection(new_protocol, host, port)
    return transport


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionOptions:
    client_id: str = "pykbroker"
    timeout_seconds: float = TIMEOUT_SECONDS
    """For a connect, and for each request that does not specify its own."""
    in_flight_max: int = IN_FLIGHT_MAX
    """Requests without a response; further requests wait for one."""
    response_bytes_max: int = RESPONSE_BYTES_MAX
    connect: Connect = connect_tcp
    clock: Clock = field(default_factory=SystemClock)
    randomness: Randomness = field(default_factory=SystemRandomness)
    """For the jitter of retries."""
