"""Holds work on another thread back, so that requests hardly notice it.

Threads of one interpreter take turns, and who waits for a turn waits as long as five
milliseconds. So the work is done in short slices with a rest after each.
"""

import time
from collections.abc import Callable

SLICE_SECONDS = 0.001
# Of the time, how much is worked.
SHARE = 0.5
REST_SECONDS_MAX = 0.01
PAUSE_SECONDS_MAX = 0.1  # then it looks whether it is to stop
UNLIMITED = float("inf")


class Stopped(Exception):
    """The work is to end here, unfinished."""


class Pace:
    """`stop` may be called from any thread; everything else is for the one that works."""

    def __init__(
        self,
        *,
        bytes_per_second: float = UNLIMITED,
        share: float = SHARE,
        now_seconds: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._bytes_per_second = bytes_per_second
        self._rest_per_second = 1 / share - 1
        self._now_seconds = now_seconds
        self._sleep = sleep
        self._slice_began = 0.0
        self._earned_until = 0.0  # when all bytes moved so far will have been allowed
        self._is_stopped = False

    def stop(self) -> None:
        self._is_stopped = True

    def begin(self) -> None:
        """Work begins, perhaps after a while of nothing."""
        self._slice_began = self._now_seconds()

    def breathe(self) -> None:
        """Rests if a slice has been worked; raises `Stopped` when the work is to end."""
        if self._is_stopped:
            raise Stopped
        worked = self._now_seconds() - self._slice_began
        if worked >= SLICE_SECONDS:
            # Part of the time it may have waited for its turn: then others need more of it.
            rest = min(worked * self._rest_per_second, REST_SECONDS_MAX)
            if rest:
                self._sleep(rest)
            self._slice_began = self._now_seconds()

    def moved(self, count: int) -> None:
        """Takes note of bytes read or written, and waits until they were allowed."""
        now = self._now_seconds()
        self._earned_until = max(self._earned_until, now) + count / self._bytes_per_second
        while (left := self._earned_until - now) > SLICE_SECONDS and not self._is_stopped:
            self._sleep(min(left, PAUSE_SECONDS_MAX))
            now = self._slice_began = self._now_seconds()
        self.breathe()


def at_full_speed() -> Pace:
    """For work that nothing runs beside."""
    return Pace(share=1.0)
