"""The state of one partition in its fetcher, as values.

A partition is fetched unless it is delayed after an error, or fenced: its leader has a newer epoch,
so the partition waits for the metadata. A later leader epoch begins a new state.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.late_dataclass import dataclass

REPORTED_AFTER_BACKOFFS: Final = 2
"""An error that a change of leadership causes is logged if it lasts for so many backoffs."""

FIRST_RETRY_SECONDS: Final = 0.02
"""After a change of leadership, leader and follower have the same metadata within milliseconds, and
acks=all waits for the follower. So the first retry comes early, and each further one twice as late
until the usual backoff."""
DOUBLINGS_MAX: Final = 16


class Reaction(Enum):
    """The reaction of a follower to an error of the leader for one partition."""

    RETRY = auto()
    ADJUST_OFFSET = auto()
    """Ask for the offsets of the leader and truncate if needed."""
    AWAIT_METADATA = auto()


TRANSIENT: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.REPLICA_NOT_AVAILABLE,
    }
)
"""Errors while leader and follower do not have the same metadata yet."""


def reaction_to(error: ErrorCode, *, requested_epoch: int, current_epoch: int) -> Reaction:
    if error is ErrorCode.OFFSET_OUT_OF_RANGE:
        return Reaction.ADJUST_OFFSET
    if error is ErrorCode.FENCED_LEADER_EPOCH and requested_epoch == current_epoch:
        return Reaction.AWAIT_METADATA
    return Reaction.RETRY


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchState:
    """One partition between two responses; times are those of a monotonic clock."""

    leader_epoch: int
    delayed_until: float = 0.0
    is_fenced: bool = False
    failures: int = 0
    failing_since: float = 0.0
    is_reported: bool = False
    """True if the current failure was logged, so that its end is logged, too."""
    lag: int | None = None
    """Records that the follower lacks below the high watermark; None before the first response."""

    def is_ready(self, now: float) -> bool:
        return not self.is_fenced and now >= self.delayed_until

    @property
    def is_in_sync(self) -> bool:
        return self.lag is not None and self.lag <= 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The state after a failure, and whether the failure is to be logged now."""

    state: FetchState
    is_new: bool


def after_failure(
    state: FetchState,
    *,
    now: float,
    backoff_seconds: float,
    is_transient: bool,
    is_fenced: bool = False,
) -> Failed:
    failing_since = state.failing_since if state.failures else now
    lasts = now - failing_since >= REPORTED_AFTER_BACKOFFS * backoff_seconds
    is_new = not state.is_reported and (not is_transient or lasts)
    delay_seconds = backoff_seconds
    if is_transient:
        delay_seconds = min(delay_seconds, early_retry_seconds(state.failures))
    after = FetchState(
        leader_epoch=state.leader_epoch,
        delayed_until=now + delay_seconds,
        is_fenced=is_fenced,
        failures=state.failures + 1,
        failing_since=failing_since,
        is_reported=state.is_reported or is_new,
        lag=state.lag,
    )
    return Failed(state=after, is_new=is_new)


def early_retry_seconds(failures_before: int) -> float:
    return FIRST_RETRY_SECONDS * 2.0 ** min(failures_before, DOUBLINGS_MAX)


def after_success(state: FetchState, lag: int) -> FetchState:
    if not state.failures and state.lag == lag:
        return state
    return FetchState(leader_epoch=state.leader_epoch, lag=lag)
