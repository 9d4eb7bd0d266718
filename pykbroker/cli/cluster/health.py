"""Finds partitions with missing replicas and the reason why each replica is missing."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pykbroker.cli.cluster.state import (
        BrokerState,
        Members,
        PartitionState,
        TopicPartition,
    )

SHORT_AGE_MS: Final = 3_000
"""Brokers fetch metadata at least every 500 ms; longer gaps are a sign of a pause."""
MINUTES_FROM_MS: Final = 120_000


class Problem(Enum):
    """Problems of a partition, worst first. A partition has the first one that applies."""

    OFFLINE = "offline"
    UNDER_MIN_IN_SYNC = "under-min-isr"
    UNDER_REPLICATED = "under-replicated"


class Reason(Enum):
    """Why a replica is not in sync, or why it cannot become the leader."""

    NOT_REGISTERED = "not registered"
    FENCED = "fenced"
    LOG_DIRECTORY_OFFLINE = "log directory offline"
    ELIGIBLE = "eligible"
    NOT_ELIGIBLE = "not eligible"
    UNREACHABLE = "unreachable"
    LAGGING = "lagging"
    CAUGHT_UP = "caught up"
    UNKNOWN = "unknown"


FIXED_TEXTS: Final = {
    Reason.NOT_REGISTERED: "no registered broker has this id",
    Reason.LOG_DIRECTORY_OFFLINE: "its log directory is offline",
    Reason.ELIGIBLE: "can be elected",
    Reason.NOT_ELIGIBLE: "alive, but neither in sync nor eligible: its election would lose records",
    Reason.CAUGHT_UP: "has all records, returns to the in-sync set with its next fetches",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingReplica:
    replica: int
    reason: Reason
    text: str
    lag: int | None
    last_fetch_age_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Unhealthy:
    """A partition with a problem. `min_in_sync` is None if the broker does not report it."""

    partition: PartitionState
    problem: Problem
    min_in_sync: int | None


def problem_of(partition: PartitionState, min_in_sync: int | None) -> Problem | None:
    """Returns the worst problem of a partition.

    Like brokers, this limits min.insync.replicas to the number of replicas.
    """
    if partition.leader is None:
        return Problem.OFFLINE
    if not partition.is_under_replicated:
        return None
    if min_in_sync is not None and len(partition.in_sync) < min(
        min_in_sync, len(partition.replicas)
    ):
        return Problem.UNDER_MIN_IN_SYNC
    return Problem.UNDER_REPLICATED


class Census:
    """Counts partitions and keeps the first `shown_max` of each problem and of all."""

    def __init__(self, shown_max: int) -> None:
        self.topics = 0
        self.partitions = 0
        self.leaders: Counter[int] = Counter()
        self.replicas: Counter[int] = Counter()
        self.problems: Counter[Problem] = Counter()
        self.shown: list[PartitionState] = []
        self._shown_max = shown_max
        self._unhealthy: dict[Problem, list[Unhealthy]] = {it: [] for it in Problem}
        self._last_topic: str | None = None

    def add(self, partition: PartitionState, min_in_sync: int | None) -> None:
        """Adds a partition. Partitions of one topic are added one after the other."""
        if partition.topic != self._last_topic:
            self._last_topic = partition.topic
            self.topics += 1
        self.partitions += 1
        self.replicas.update(partition.replicas)
        if partition.leader is not None:
            self.leaders[partition.leader] += 1
        if len(self.shown) < self._shown_max:
            self.shown.append(partition)
        problem = problem_of(partition, min_in_sync)
        if problem is None:
            return
        self.problems[problem] += 1
        kept = self._unhealthy[problem]
        if len(kept) < self._shown_max:
            kept.append(Unhealthy(partition=partition, problem=problem, min_in_sync=min_in_sync))

    @property
    def unhealthy(self) -> list[Unhealthy]:
        """At most `shown_max` partitions with problems, worst first."""
        found = [it for problem in Problem for it in self._unhealthy[problem]]
        return found[: self._shown_max]


def lagging_candidates(unhealthy: Unhealthy, members: Members) -> list[int]:
    """Returns replicas out of sync whose brokers respond: their lag can be measured."""
    partition = unhealthy.partition
    return [
        it
        for it in partition.replicas
        if it not in partition.in_sync
        and (broker := members.brokers.get(it)) is not None
        and broker.error is None
    ]


def missing_replicas(
    unhealthy: Unhealthy, members: Members, lags: Mapping[tuple[TopicPartition, int], int]
) -> Iterator[MissingReplica]:
    """Yields the replicas that are not in sync; of an offline partition all replicas."""
    partition = unhealthy.partition
    is_offline = unhealthy.problem is Problem.OFFLINE
    for replica in partition.replicas:
        if replica in partition.in_sync and not is_offline:
            continue
        lag = lags.get((partition.name, replica))
        age_ms = last_fetch_age_ms(members, replica)
        reason = reason_of(partition, replica, members.brokers.get(replica), lag)
        yield MissingReplica(
            replica=replica,
            reason=reason,
            text=reason_text(reason, replica, members, lag),
            lag=lag,
            last_fetch_age_ms=age_ms,
        )


def reason_of(
    partition: PartitionState, replica: int, broker: BrokerState | None, lag: int | None
) -> Reason:
    if broker is None:
        return Reason.NOT_REGISTERED
    if broker.is_fenced:
        return Reason.FENCED
    if replica in partition.offline:
        return Reason.LOG_DIRECTORY_OFFLINE
    if partition.leader is None:
        can_lead = replica in partition.in_sync or replica in (partition.eligible or ())
        return Reason.ELIGIBLE if can_lead else Reason.NOT_ELIGIBLE
    return reason_of_live_replica(broker, lag)


def reason_of_live_replica(broker: BrokerState, lag: int | None) -> Reason:
    if broker.error is not None:
        return Reason.UNREACHABLE
    if lag is None:
        return Reason.UNKNOWN
    return Reason.LAGGING if lag > 0 else Reason.CAUGHT_UP


def reason_text(reason: Reason, replica: int, members: Members, lag: int | None) -> str:
    """Returns a phrase such as 'fenced, last metadata fetch 41 s ago'."""
    match reason:
        case Reason.FENCED:
            return f"fenced, {last_fetch_text(members, replica)}"
        case Reason.UNREACHABLE:
            error = members.brokers[replica].error
            return f"unfenced, but does not respond ({error}){pause_text(members, replica)}"
        case Reason.LAGGING:
            return f"{lag:,} records behind the leader{pause_text(members, replica)}"
        case Reason.UNKNOWN:
            return f"unfenced, lag unknown{pause_text(members, replica)}"
        case _:
            return FIXED_TEXTS[reason]


def last_fetch_age_ms(members: Members, replica: int) -> int | None:
    observer = members.quorum.replica(replica) if members.quorum is not None else None
    return observer.last_fetch_age_ms if observer is not None else None


def last_fetch_text(members: Members, replica: int) -> str:
    age_ms = last_fetch_age_ms(members, replica)
    if age_ms is not None:
        return f"last metadata fetch {age_text(age_ms)}"
    if members.quorum is None:
        return "last metadata fetch unknown"
    return "no recent metadata fetch"  # the controller evicts silent observers after 5 minutes


def pause_text(members: Members, replica: int) -> str:
    """Returns the age of the last fetch if it is longer than that of a healthy broker."""
    age_ms = last_fetch_age_ms(members, replica)
    is_paused = age_ms is not None and age_ms > SHORT_AGE_MS
    return f", {last_fetch_text(members, replica)}" if is_paused else ""


def age_text(age_ms: int) -> str:
    """Formats an age such as `0.4 s ago`, `41 s ago` or `5 min ago`."""
    if age_ms < 1000:
        return f"{age_ms / 1000:.1f} s ago"
    if age_ms < MINUTES_FROM_MS:
        return f"{age_ms // 1000} s ago"
    return f"{age_ms // 60_000} min ago"
