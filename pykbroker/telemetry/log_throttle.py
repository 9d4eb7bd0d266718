"""Limits similar log lines, so that a repeated error does not fill the disk.

Memory is bounded: above `kinds_max` kinds of lines, the kind with the oldest line is evicted.
"""

from collections.abc import Hashable
from typing import Final

LINES_PER_PERIOD_MAX: Final = 30
PERIOD_SECONDS: Final = 60.0
KINDS_MAX: Final = 1000


class LogThrottle:
    """Admits the first lines of a kind in each period and counts the suppressed ones."""

    __slots__ = ("_kinds", "_kinds_max", "_lines_max", "_period_seconds")

    def __init__(
        self,
        *,
        lines_max: int = LINES_PER_PERIOD_MAX,
        period_seconds: float = PERIOD_SECONDS,
        kinds_max: int = KINDS_MAX,
    ) -> None:
        self._lines_max = lines_max
        self._period_seconds = period_seconds
        self._kinds_max = kinds_max
        # By kind: start of its period and lines since then. The kind of the latest line is last.
        self._kinds: dict[Hashable, tuple[float, int]] = {}

    def admit(self, kind: Hashable, now_seconds: float) -> int | None:
        """Returns the number of lines suppressed before this one, or None to suppress it."""
        start, count = self._kinds.pop(kind, (now_seconds, 0))
        suppressed = 0
        if now_seconds - start >= self._period_seconds:
            suppressed = max(0, count - self._lines_max)
            start, count = now_seconds, 0
        self._kinds[kind] = (start, count + 1)
        if len(self._kinds) > self._kinds_max:
            del self._kinds[next(iter(self._kinds))]
        return suppressed if count < self._lines_max else None


def suppressed_text(count: int) -> str:
    """Returns the end of a log line that follows suppressed lines, or ""."""
    return f" ({count} similar line{'s' * (count != 1)} suppressed)" if count else ""
