"""Decides whether one more connection may come in."""

from collections import Counter
from enum import Enum, auto

from pykbroker.transport.limits import ConnectionLimits


class Verdict(Enum):
    """What happens to the next connection."""

    ADMIT = auto()
    TURN_AWAY = auto()  # its address holds too many: accept and close


class Admission:
    """Counts connections, all together and by address."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self.count = 0
        self._by_ip: Counter[str] = Counter()

    @property
    def is_full(self) -> bool:
        """Whether newcomers have to wait in the system's backlog until somebody leaves."""
        return self.count >= self.limits.connections_max

    def enter(self, ip: str) -> Verdict:
        """One more from this address; an admitted one leaves again some day."""
        if self._by_ip[ip] >= self.limits.connections_from(ip):
            if not self._by_ip[ip]:
                del self._by_ip[ip]
            return Verdict.TURN_AWAY
        self._by_ip[ip] += 1
        self.count += 1
        return Verdict.ADMIT

    def leave(self, ip: str) -> None:
        """One of this address is gone."""
        self.count -= 1
        self._by_ip[ip] -= 1
        assert self.count >= 0
        assert self._by_ip[ip] >= 0, "nobody leaves who was not admitted"
        if not self._by_ip[ip]:
            del self._by_ip[ip]
