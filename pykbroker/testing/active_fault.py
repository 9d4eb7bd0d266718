"""A fault that a test has set: counts how often it was applied, and ends on request."""

from __future__ import annotations

from math import inf
from typing import Self


class FaultMatchedNothing(AssertionError):
    """A fault was never applied, so the test did not test it."""


class ActiveFault:
    """A fault of a test. As a context manager it ends with the block and checks that it applied."""

    def __init__(self, times: int | None) -> None:
        if times is not None and times < 1:
            raise ValueError(f"times must be at least 1, not {times}")
        self.hits = 0
        """How often the fault was applied."""
        self.is_over = False
        self._is_reported = False
        self._times = times

    @property
    def is_due(self) -> bool:
        """True while the fault has not ended and 'times' is not used up."""
        return not self.is_over and (self._times is None or self.hits < self._times)

    def end(self) -> None:
        """Ends the fault. Callable from any thread."""
        self.is_over = True

    def check(self) -> None:
        """Raises FaultMatchedNothing if the fault was never applied; later calls do not raise."""
        if not self.hits and not self._is_reported:
            self._is_reported = True
            raise FaultMatchedNothing(f"fault was never applied: {self}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.end()
        if kind is None:
            self.check()


def valid_duration(seconds: float) -> float:
    """Returns 'seconds', or raises ValueError unless it is finite and not negative."""
    if not 0 <= seconds < inf:
        raise ValueError(f"seconds must be finite and not negative, not {seconds:g}")
    return seconds
