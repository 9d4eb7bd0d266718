"""Limits of a connection, and of all connections together."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from pykbroker_protocol.late_dataclass import dataclass, field

UNBOUNDED: Final = 2**31 - 1
SYSTEM_DEFAULT: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """The comment beside a limit is its Kafka property, if there is one."""

    request_bytes_max: int = 100 * 1024 * 1024  # socket.request.max.bytes
    idle_ms_max: int = 600_000  # connections.max.idle.ms; negative: unlimited
    # max.connections of all listeners together; fewer if the open file limit requires it
    connections_max: int = UNBOUNDED
    connections_per_ip_max: int = UNBOUNDED  # max.connections.per.ip
    connections_per_ip_overrides: Mapping[str, int] = field(
        default_factory=lambda: MappingProxyType({})
    )  # max.connections.per.ip.overrides, by address
    accept_backlog_max: int = 50  # socket.listen.backlog.size
    send_buffer_bytes: int = SYSTEM_DEFAULT  # socket.send.buffer.bytes
    receive_buffer_bytes: int = SYSTEM_DEFAULT  # socket.receive.buffer.bytes

    # Requests read ahead of their responses. Stock clients keep 5 (Java) to a few dozen
    # (librdkafka) requests in flight.
    requests_in_flight_max: int = 100
    # Responses that wait for an earlier response; above it no further request is served.
    held_bytes_max: int = 16 * 1024 * 1024
    # Responses in the send buffer; above it no further request is served. One may exceed it.
    unsent_bytes_max: int = 64 * 1024

    def connections_from(self, ip: str) -> int:
        """Returns the maximum number of connections of one address."""
        return self.connections_per_ip_overrides.get(ip, self.connections_per_ip_max)
