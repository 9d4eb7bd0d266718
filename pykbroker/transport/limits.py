"""What a connection, and all connections together, may take from the broker."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from pykbroker_protocol.late_dataclass import dataclass, field

UNBOUNDED: Final = 2**31 - 1
SYSTEM_DEFAULT: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """The bounds of the network edge; Kafka's property name stands beside each that has one."""

    request_bytes_max: int = 100 * 1024 * 1024  # socket.request.max.bytes
    idle_ms_max: int = 600_000  # connections.max.idle.ms; negative: no bound
    # max.connections, all listeners together, or fewer if the open file limit allows fewer
    connections_max: int = UNBOUNDED
    connections_per_ip_max: int = UNBOUNDED  # max.connections.per.ip
    connections_per_ip_overrides: Mapping[str, int] = field(
        default_factory=lambda: MappingProxyType({})
    )  # max.connections.per.ip.overrides, by address
    accept_backlog_max: int = 50  # socket.listen.backlog.size
    send_buffer_bytes: int = SYSTEM_DEFAULT  # socket.send.buffer.bytes
    receive_buffer_bytes: int = SYSTEM_DEFAULT  # socket.receive.buffer.bytes

    # A client that pipelines deeper than this is read again when answers have left. Stock clients
    # keep at most 5 (Java) to a few dozen (librdkafka) requests in flight.
    requests_in_flight_max: int = 100
    # Answers that are ready but must wait for an earlier one; beyond it no new request is begun.
    held_bytes_max: int = 16 * 1024 * 1024
    # Answers the peer does not take; beyond it no new request is begun. One answer may exceed it.
    unsent_bytes_max: int = 64 * 1024

    def connections_from(self, ip: str) -> int:
        """How many connections one address may hold."""
        return self.connections_per_ip_overrides.get(ip, self.connections_per_ip_max)
