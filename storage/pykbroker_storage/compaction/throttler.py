"""Moves bytes no faster than `log.cleaner.io.max.bytes.per.second` allows."""

import time
from collections.abc import Callable

# Shorter debts are left to grow: sleeping is not that exact.
DEBT_SECONDS_MIN = 0.001
UNLIMITED = float("inf")


class Throttler:
    """Tell it of all bytes that are read or written; now and then it sleeps."""

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
        self._earned_until = 0.0  # when all bytes moved so far will have been allowed

    def moved(self, count: int) -> None:
        now = self._now_seconds()
        self._earned_until = max(self._earned_until, now) + count / self._bytes_per_second
        debt_seconds = self._earned_until - now
        if debt_seconds > DEBT_SECONDS_MIN:
            self._sleep(debt_seconds)
