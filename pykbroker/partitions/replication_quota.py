"""The rate of replicated bytes in sliding windows, and which replicas it limits (KIP-73)."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection


class ReplicationQuota:
    """The bytes of the last windows; bounded by the number of windows.

    As in Apache Kafka the rate is that of the time since the oldest window began, of at least one
    window.
    """

    def __init__(self, *, windows: int, window_seconds: float) -> None:
        self._windows_max = windows
        self._window_seconds = window_seconds
        self._windows: deque[tuple[float, int]] = deque()
        """Begin and bytes of each window, oldest first."""

    def record(self, count: int, now: float) -> None:
        self._expire(now)
        if self._windows and now - self._windows[-1][0] < self._window_seconds:
            began, before = self._windows.pop()
            self._windows.append((began, before + count))
        else:
            self._windows.append((now, count))

    def rate(self, now: float) -> float:
        self._expire(now)
        if not self._windows:
            return 0.0
        elapsed = max(now - self._windows[0][0], self._window_seconds)
        return sum(count for _, count in self._windows) / elapsed

    def is_exceeded(self, rate_max: int, now: float) -> bool:
        return self.rate(now) > rate_max

    def _expire(self, now: float) -> None:
        age_max = self._windows_max * self._window_seconds
        while self._windows and now - self._windows[0][0] >= age_max:
            self._windows.popleft()


def is_throttled(throttled_replicas: Collection[str], index: int, broker: int) -> bool:
    """Returns whether a list of `partition:broker` pairs, or `*`, has this replica."""
    return "*" in throttled_replicas or f"{index}:{broker}" in throttled_replicas
