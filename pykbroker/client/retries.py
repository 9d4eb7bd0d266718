"""Which errors are retried, after which action, and how long: one table for all clients."""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING, Final

from pykbroker_protocol.errors import ErrorCode

if TYPE_CHECKING:
    from pykbroker.client.connection_options import ConnectionOptions

BACKOFF_SECONDS: Final = 0.1
"""Pause before the first retry, as `retry.backoff.ms` of Kafka's clients."""

BACKOFF_SECONDS_MAX: Final = 1.0
"""The pause doubles with each retry up to this, as `retry.backoff.max.ms`."""

JITTER: Final = 0.2
"""Each pause is up to this fraction longer, so that clients of a failed broker spread out."""


class Recovery(Enum):
    """The action that can make a failed request succeed."""

    NONE = auto()  # the error is final
    RETRY = auto()  # same broker
    REFRESH_METADATA = auto()  # the leader may have moved
    FIND_COORDINATOR = auto()
    REJOIN = auto()  # the group has a new generation, or evicted the member


RECOVERIES: Final = {
    **dict.fromkeys(
        (
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.UNKNOWN_TOPIC_ID,
            ErrorCode.INCONSISTENT_TOPIC_ID,
            ErrorCode.LEADER_NOT_AVAILABLE,
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            ErrorCode.REPLICA_NOT_AVAILABLE,
            ErrorCode.KAFKA_STORAGE_ERROR,
            ErrorCode.FENCED_LEADER_EPOCH,
            ErrorCode.UNKNOWN_LEADER_EPOCH,
            ErrorCode.LISTENER_NOT_FOUND,
        ),
        Recovery.REFRESH_METADATA,
    ),
    **dict.fromkeys(
        (
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
            ErrorCode.NOT_COORDINATOR,
        ),
        Recovery.FIND_COORDINATOR,
    ),
    **dict.fromkeys(
        (
            ErrorCode.REBALANCE_IN_PROGRESS,
            ErrorCode.ILLEGAL_GENERATION,
            ErrorCode.UNKNOWN_MEMBER_ID,
        ),
        Recovery.REJOIN,
    ),
    # Kafka's clients retry it; the same bytes would be corrupt again.
    ErrorCode.CORRUPT_MESSAGE: Recovery.NONE,
}
"""Errors without a row are retried at the same broker if the protocol calls them retriable."""


def recovery_from(error: ErrorCode) -> Recovery:
    found = RECOVERIES.get(error)
    if found is not None:
        return found
    return Recovery.RETRY if error.retriable else Recovery.NONE


class Attempts:
    """Paces the attempts of one operation until its deadline."""

    __slots__ = ("_deadline", "_next_pause", "_options", "_seconds")

    def __init__(self, options: ConnectionOptions, seconds: float) -> None:
        self._options = options
        self._seconds = seconds
        self.restart()

    def restart(self) -> None:
        """Starts the deadline and the backoff again, after progress."""
        self._deadline = self._options.clock.monotonic() + self._seconds
        self._next_pause = BACKOFF_SECONDS

    async def pause(self) -> bool:
        """Sleeps before the next attempt; returns False at once if the deadline has passed."""
        if self._options.clock.monotonic() > self._deadline:
            return False
        jitter = 1 + JITTER * self._options.randomness.below(1000) / 1000
        await self._options.clock.sleep(self._next_pause * jitter)
        self._next_pause = min(2 * self._next_pause, BACKOFF_SECONDS_MAX)
        return True
