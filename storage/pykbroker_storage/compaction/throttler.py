"""Limits disk I/O to `log.cleaner.io.max.bytes.per.second`."""

import time
from collections.abc import Callable

# Shorter delays accumulate, because sleeping is not that precise.
DEBT_SECONDS_MIN = 0.001
UNLIMITED = float("inf")


class Throttler:
    """Sleeps when the bytes passed to `count` exceed the rate."""

    def __init__(
        self,
        bytes_per_second: float = UNLIMITED,
        *,
        now_seconds: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._bytes_per_second = bytes_per_second
        self._now_seconds = now_seconds
        self._sleep = sleep
        self._earned_until = 0.0  # the time at which all bytes so far are within the rate

    def count(self, byte_count: int) -> None:
        now = self._now_seconds()
        self._earned_until = max(self._earned_until, now) + byte_count / self._bytes_per_second
        debt_seconds = self._earned_until - now
        if debt_seconds > DEBT_SECONDS_MIN:
            self._sleep(debt_seconds)
