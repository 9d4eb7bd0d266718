"""The parts of a broker that its leader partitions share: brokers, session, proposals."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from pykbroker.clock import SystemClock
from pykbroker.partitions.directory_health import DirectoryHealth

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Protocol

    from pykbroker.clock import Clock
    from pykbroker.metadata.image import BrokerImage
    from pykbroker.partitions.in_sync import InSyncProposal, ProposalOutcome, RefusalEffect
    from pykbroker.partitions.leadership import Leadership
    from pykbroker.partitions.replication_quota import ReplicationQuota

    class NamedPartition(Protocol):
        """The partition that a proposal is for."""

        topic: str
        topic_id: bytes
        index: int
        leadership: Leadership

    class Proposer(Protocol):
        """The leader as the sender of proposals uses it."""

        @property
        def partition(self) -> NamedPartition: ...
        def is_pending(self, proposal: InSyncProposal) -> bool: ...
        def settle_proposal(
            self, proposal: InSyncProposal, outcome: ProposalOutcome
        ) -> RefusalEffect | None: ...

    Propose = Callable[[Proposer, InSyncProposal], None]
    """Sends a proposal to the controller; its outcome goes to `settle_proposal`."""

KAFKAS_LAG_SECONDS_MAX = 30.0
"""Default of `replica.lag.time.max.ms`."""


class LeaderContext:
    """The state of the cluster for leaders. One object per broker; membership updates it.

    A broker that is its own cluster keeps the defaults: its session never ends.
    """

    __slots__ = (
        "brokers",
        "clock",
        "health",
        "lag_seconds_max",
        "own_epoch",
        "propose",
        "quota",
        "session_ends_at",
    )

    def __init__(
        self,
        clock: Clock | None = None,
        *,
        brokers: Mapping[int, BrokerImage] | None = None,
        lag_seconds_max: float = KAFKAS_LAG_SECONDS_MAX,
    ) -> None:
        self.clock: Clock = clock or SystemClock()
        self.brokers: Mapping[int, BrokerImage] = {} if brokers is None else brokers
        """The registered brokers of the committed metadata."""
        self.lag_seconds_max = lag_seconds_max
        """`replica.lag.time.max.ms`"""
        self.own_epoch = -1
        """Broker epoch of this broker's registration."""
        self.session_ends_at = inf
        """Monotonic time at which the controller may have elected other leaders: the time at which
        the last successful heartbeat was sent, plus the session timeout."""
        self.propose: Propose | None = None
        self.health = DirectoryHealth()
        self.quota: ReplicationQuota | None = None
        """The rate of `leader.replication.throttled.rate`; None before the first throttled read."""

    @property
    def has_session(self) -> bool:
        """False if another broker may lead by now, because heartbeats have failed for too long."""
        ends_at = self.session_ends_at
        return ends_at == inf or self.clock.monotonic() < ends_at

    def live(self, broker_id: int) -> int | None:
        """Returns the epoch of a broker; None if it is not registered or is fenced."""
        broker = self.brokers.get(broker_id)
        return None if broker is None or broker.fenced else broker.epoch

    def joining(self, broker_id: int) -> int | None:
        """Like `live`; also None for a broker in controlled shutdown."""
        broker = self.brokers.get(broker_id)
        if broker is None or broker.fenced or broker.in_controlled_shutdown:
            return None
        return broker.epoch
