"""How often the same thing has been said lately, so that a repeated trouble does not flood the log.

The memory is bounded: of more kinds of lines than `kinds_max` the one longest silent is forgotten.
"""

from collections.abc import Callable, Hashable
from typing import Final

LINES_PER_PERIOD_MAX: Final = 30
PERIOD_SECONDS: Final = 60.0
KINDS_MAX: Final = 1000


class Repetition:
    """Lets the first lines of a kind through in each period and counts the others."""

    __slots__ = ("_kinds", "_kinds_max", "_lines_max", "_monotonic", "_period_seconds")

    def __init__(
        self,
        *,
        monotonic: Callable[[], float],
        lines_max: int = LINES_PER_PERIOD_MAX,
        period_seconds: float = PERIOD_SECONDS,
        kinds_max: int = KINDS_MAX,
    ) -> None:
        self._monotonic = monotonic
        self._lines_max = lines_max
        self._period_seconds = period_seconds
        self._kinds_max = kinds_max
        # For each kind: when its period began, how many lines came in it. The last heard is last.
        self._kinds: dict[Hashable, tuple[float, int]] = {}

    def admit(self, kind: Hashable) -> int | None:
        """How many lines of this kind were held back before this one; None holds it back too."""
        now = self._monotonic()
        began, count = self._kinds.pop(kind, (now, 0))
        held_back = 0
        if now - began >= self._period_seconds:
            held_back = max(0, count - self._lines_max)
            began, count = now, 0
        self._kinds[kind] = (began, count + 1)
        self._forget_the_longest_silent()
        return held_back if count < self._lines_max else None

    def _forget_the_longest_silent(self) -> None:
        if len(self._kinds) > self._kinds_max:
            del self._kinds[next(iter(self._kinds))]
