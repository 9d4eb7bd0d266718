"""Progress of a follower, as its leader learns it from the follower's fetches.

A fetch from an offset acknowledges all records before this offset. Times are those of a monotonic
clock, in seconds.
"""

from __future__ import annotations

from math import inf
from typing import NamedTuple

UNKNOWN_OFFSET = -1
ANY_EPOCH = -1
"""The broker epoch in fetches of brokers that state none: it matches every registration."""
NEVER = -inf


class FollowerProgress(NamedTuple):
    """The last fetch of a follower, and the time at which it had all records."""

    log_end_offset: int = UNKNOWN_OFFSET
    log_start_offset: int = UNKNOWN_OFFSET
    leader_end_offset: int = UNKNOWN_OFFSET
    """Log end offset of the leader at the time of the last fetch."""
    fetched_at: float = NEVER
    caught_up_at: float = NEVER
    """The last time at which the follower had all records that the leader had."""
    broker_epoch: int | None = None
    """None before the first fetch."""

    def is_caught_up(self, leader_end_offset: int, now: float, lag_seconds_max: float) -> bool:
        """Returns True if the follower has all records, or had them recently."""
        if self.log_end_offset == leader_end_offset:
            return True
        return now - self.caught_up_at <= lag_seconds_max


NO_PROGRESS = FollowerProgress()


def after_fetch(
    progress: FollowerProgress,
    *,
    fetch_offset: int,
    log_start_offset: int,
    broker_epoch: int,
    leader_end_offset: int,
    now: float,
) -> FollowerProgress:
    """Returns the progress after a fetch.

    Under constant load a follower never fetches from the end of the log. So a fetch from the offset
    at which the log ended during the previous fetch shows that the follower had all records then.
    """
    caught_up_at = progress.caught_up_at
    if fetch_offset >= leader_end_offset:
        caught_up_at = now
    elif fetch_offset >= progress.leader_end_offset:
        caught_up_at = max(caught_up_at, progress.fetched_at)
    return FollowerProgress(
        fetch_offset,
        log_start_offset,
        max(leader_end_offset, progress.leader_end_offset),
        now,
        caught_up_at,
        broker_epoch,
    )


def at_new_leader_epoch(*, is_in_sync: bool, now: float) -> FollowerProgress:
    """Returns the progress at the start of a leader epoch.

    The last fetch of an earlier epoch does not count, even if this broker led that epoch: another
    leader, in an epoch that is not in the metadata of this broker yet, can have truncated the log.

    An in-sync follower has the whole maximum lag to send its first fetch. Another follower counts
    as caught up only after a fetch, so that it does not hold back the high watermark.
    """
    return FollowerProgress(caught_up_at=now if is_in_sync else NEVER)
