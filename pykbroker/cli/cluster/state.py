"""The state of a cluster as values: brokers, quorum, partitions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pykbroker.address import Address

NO_LEADER: Final = -1


class TopicPartition(NamedTuple):
    topic: str
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDirectory:
    """A log directory. `is_cordoned` is None if the broker does not report it."""

    path: str
    size: int
    usable_bytes: int | None
    is_cordoned: bool | None
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerState:
    """A registered broker. `error` is the reason why its log directories are unknown."""

    broker_id: int
    address: Address
    rack: str | None
    is_fenced: bool
    log_directories: Sequence[LogDirectory] = ()
    error: str | None = None

    @property
    def is_cordoned(self) -> bool | None:
        """True if the controller places no new partitions here: all directories are cordoned."""
        if any(it.is_cordoned is None for it in self.log_directories) or not self.log_directories:
            return None
        return all(it.is_cordoned for it in self.log_directories)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumReplica:
    """A voter or observer of the metadata log. Ages are measured by the leader's clock."""

    replica_id: int
    address: str | None
    log_end_offset: int
    lag: int
    last_fetch_age_ms: int | None
    last_caught_up_age_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumState:
    leader: int
    epoch: int
    high_watermark: int
    voters: Sequence[QuorumReplica]
    observers: Sequence[QuorumReplica]

    def replica(self, replica_id: int) -> QuorumReplica | None:
        for it in (*self.voters, *self.observers):
            if it.replica_id == replica_id:
                return it
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionState:
    """A partition. `eligible` and `last_known_eligible` (ELR, KIP-966) are None if unknown."""

    topic: str
    index: int
    leader: int | None
    leader_epoch: int
    replicas: Sequence[int]
    in_sync: Sequence[int]
    offline: Sequence[int] = ()
    eligible: Sequence[int] | None = None
    last_known_eligible: Sequence[int] | None = None

    @property
    def name(self) -> TopicPartition:
        return TopicPartition(self.topic, self.index)

    @property
    def is_under_replicated(self) -> bool:
        return len(self.in_sync) < len(self.replicas)


@dataclass(frozen=True, slots=True, kw_only=True)
class Members:
    """The brokers of a cluster and the quorum of its metadata log."""

    cluster_id: str
    controller_id: int
    features: Mapping[str, int]
    brokers: Mapping[int, BrokerState]
    quorum: QuorumState | None
    quorum_error: str | None
