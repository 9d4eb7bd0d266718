"""Connection quotas: `max.connections`, `max.connections.per.ip` and its overrides."""

from collections import Counter
from enum import Enum, auto

from pykbroker.transport.limits import ConnectionLimits


class Verdict(Enum):
    """Decision on an accepted connection."""

    ADMIT = auto()
    REJECT = auto()  # its IP address has reached its quota: close it


class ConnectionQuotas:
    """Counts admitted connections, in total and by IP address."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self.count = 0
        self._by_ip: Counter[str] = Counter()

    @property
    def is_full(self) -> bool:
        """True if new connections must wait in the backlog until an open one closes."""
        return self.count >= self.limits.connections_max

    def admit(self, ip: str) -> Verdict:
        """Counts a connection unless its address has reached its quota; `release` reverses it."""
        if self._by_ip[ip] >= self.limits.connections_from(ip):
            if not self._by_ip[ip]:
                del self._by_ip[ip]
            return Verdict.REJECT
        self._by_ip[ip] += 1
        self.count += 1
        return Verdict.ADMIT

    def release(self, ip: str) -> None:
        self.count -= 1
        self._by_ip[ip] -= 1
        assert self.count >= 0
        assert self._by_ip[ip] >= 0, "a released connection was admitted before"
        if not self._by_ip[ip]:
            del self._by_ip[ip]
