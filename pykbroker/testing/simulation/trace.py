"""The events of a simulation with their virtual times: the same list for the same seed."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

LAST_SHOWN: Final = 40


class Happened(NamedTuple):
    seconds: float
    """Virtual time since the start."""
    text: str

    def __str__(self) -> str:
        return f"{timedelta(seconds=self.seconds)}  {self.text}"


class Trace(list[Happened]):
    """Traces of two runs compare equal if the same events happened at the same times."""

    def __init__(self, now: Callable[[], float]) -> None:
        super().__init__()
        self._now = now

    def note(self, text: str) -> None:
        self.append(Happened(self._now(), text))

    def tail(self, count: int = LAST_SHOWN) -> str:
        return "\n".join(str(it) for it in self[-count:])
