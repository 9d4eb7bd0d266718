"""Whatever a test asks to go wrong: it counts how often it did, and ends when the test says so."""

from __future__ import annotations

from math import inf
from typing import Self


class FaultMatchedNothing(AssertionError):
    """A test asked for a fault, and nothing came that it was meant for."""


class ActiveFault:
    """In a `with` statement it ends with the block, and must have struck in it."""

    def __init__(self, times: int | None) -> None:
        if times is not None and times < 1:
            raise ValueError(f"a fault strikes at least once, not {times} times")
        self.hits = 0
        """How often it has struck."""
        self.is_over = False
        self._is_told = False
        self._times = times

    @property
    def is_due(self) -> bool:
        """Whether it strikes whoever comes next."""
        return not self.is_over and (self._times is None or self.hits < self._times)

    def end(self) -> None:
        """From now on it strikes nobody; from any thread."""
        self.is_over = True

    def check(self) -> None:
        """Raises FaultMatchedNothing if it has not struck, the first time that it is checked."""
        if not self.hits and not self._is_told:
            self._is_told = True
            raise FaultMatchedNothing(f"this fault met nothing that it was meant for: {self}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.end()
        if kind is None:
            self.check()


def lasting(seconds: float) -> float:
    """The seconds, if something can take so long."""
    if not 0 <= seconds < inf:
        raise ValueError(f"nothing takes {seconds:g} s")
    return seconds
