"""Sessions and states of brokers as KRaft decides them: fencing, unfencing, controlled shutdown."""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING

from pykbroker_protocol.late_dataclass import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pykbroker.metadata.image import BrokerImage, ClusterImage

UNKNOWN_OFFSET = -1


class BrokerState(Enum):
    FENCED = auto()
    UNFENCED = auto()
    CONTROLLED_SHUTDOWN = auto()
    SHUTDOWN_NOW = auto()

    @property
    def is_fenced(self) -> bool:
        return self in {BrokerState.FENCED, BrokerState.SHUTDOWN_NOW}


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """The latest heartbeat of a broker."""

    broker_epoch: int
    contact_seconds: float
    metadata_offset: int = UNKNOWN_OFFSET
    shutdown_offset: int | None = None
    """Metadata offset at which the controlled shutdown moved the last leadership."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    metadata_offset: int
    requests_fence: bool
    requests_shutdown: bool


def state_of(broker: BrokerImage) -> BrokerState:
    if broker.fenced:
        return BrokerState.FENCED
    if broker.in_controlled_shutdown:
        return BrokerState.CONTROLLED_SHUTDOWN
    return BrokerState.UNFENCED


def next_state(
    broker: BrokerImage,
    heartbeat: Heartbeat,
    *,
    leads: bool,
    shutdown_offset: int | None,
    lowest_offset: int,
) -> BrokerState:
    """Returns the state after a heartbeat.

    A broker that shuts down ends only after all active brokers have applied the metadata that moved
    its leaderships (`lowest_offset` is theirs).
    """
    match state_of(broker):
        case BrokerState.FENCED:
            return _next_of_fenced(broker, heartbeat)
        case BrokerState.UNFENCED:
            return _next_of_unfenced(heartbeat, leads=leads)
        case _:
            is_waiting = leads or shutdown_offset is None or shutdown_offset > lowest_offset
            return BrokerState.CONTROLLED_SHUTDOWN if is_waiting else BrokerState.SHUTDOWN_NOW


def _next_of_fenced(broker: BrokerImage, heartbeat: Heartbeat) -> BrokerState:
    if heartbeat.requests_shutdown:
        return BrokerState.SHUTDOWN_NOW
    if heartbeat.requests_fence or heartbeat.metadata_offset < broker.epoch:
        return BrokerState.FENCED
    return BrokerState.UNFENCED


def _next_of_unfenced(heartbeat: Heartbeat, *, leads: bool) -> BrokerState:
    if heartbeat.requests_shutdown:
        is_waiting = leads and not heartbeat.requests_fence
        return BrokerState.CONTROLLED_SHUTDOWN if is_waiting else BrokerState.SHUTDOWN_NOW
    return BrokerState.FENCED if heartbeat.requests_fence else BrokerState.UNFENCED


def leads_partitions(image: ClusterImage, broker_id: int) -> bool:
    return any(
        partition.leader == broker_id
        for topic in image.topics.values()
        for partition in topic.partitions
    )


def lowest_active_offset(image: ClusterImage, sessions: Mapping[int, Session]) -> int:
    """Returns the lowest metadata offset of active brokers; a large number if there is none."""
    offsets = [
        sessions[broker.id].metadata_offset
        for broker in image.brokers.values()
        if not broker.fenced and not broker.in_controlled_shutdown and broker.id in sessions
    ]
    return min(offsets, default=2**62)


def expired(
    brokers: Iterable[BrokerImage],
    sessions: Mapping[int, Session],
    *,
    now_seconds: float,
    timeout_seconds: float,
) -> Iterator[int]:
    """Returns unfenced brokers whose session has timed out, the longest silent first."""
    silent = [
        (sessions[it.id].contact_seconds, it.id)
        for it in brokers
        if not it.fenced and it.id in sessions
    ]
    for contact_seconds, broker_id in sorted(silent):
        if contact_seconds + timeout_seconds <= now_seconds:
            yield broker_id


def has_valid_session(
    broker: BrokerImage, session: Session | None, *, now_seconds: float, timeout_seconds: float
) -> bool:
    """Returns whether an incarnation of the broker has sent a heartbeat within the timeout."""
    return (
        session is not None
        and session.broker_epoch == broker.epoch
        and session.metadata_offset != UNKNOWN_OFFSET
        and session.contact_seconds + timeout_seconds > now_seconds
    )
