"""Whether to look for the next request for a moment, rather than to sleep until it wakes us.

A client that waits for each answer before it asks again waits for the kernel most of the time: to
put a broker to sleep and to wake it takes longer than to serve a request, and costs nearly as much
as looking does. So after an answer the event loop keeps looking, as long as that was worth it.
"""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import asyncio

LOOK_SECONDS: Final = 30e-6
"""A client on the same machine has taken its answer, and asked again, by then."""

TURNS_WORTH_A_LOOK: Final = 8
"""Each look ends in vain, so it should have been good for some requests before. Answers that leave
in one turn of the loop count once: for those the loop need not have looked."""

LEFT_OUT_MAX: Final = 1024
"""Where looking was not worth it again and again, this many answers go by without."""


class Attention:
    """Counts what looking was good for; whoever has the event loop does the looking."""

    __slots__ = (
        "_has_answered",
        "_leave_out",
        "_next_leave_out",
        "_turns",
        "_until",
        "is_looking",
    )

    def __init__(self) -> None:
        self.is_looking = False
        self._until = 0.0
        self._turns = 0
        """In which there was an answer, since it began to look."""
        self._has_answered = False
        self._leave_out = 0
        """So many answers go by before the next try."""
        self._next_leave_out = 1

    def answered(self, now_seconds: float) -> bool:
        """An answer has left. Whether to begin to look now; not if that has begun before."""
        if self.is_looking:
            self._has_answered = True
            self._until = now_seconds + LOOK_SECONDS
            return False
        if self._leave_out:
            self._leave_out -= 1
            return False
        self.is_looking = True
        self._turns = 0
        self._has_answered = False
        self._until = now_seconds + LOOK_SECONDS
        return True

    def looks_on(self, now_seconds: float) -> bool:
        """After each turn of the loop: whether to look again, or to sleep."""
        if self._has_answered:
            self._turns += 1
            self._has_answered = False
        if now_seconds < self._until:
            return True
        self.is_looking = False
        if self._turns >= TURNS_WORTH_A_LOOK:
            self._next_leave_out = 1
        else:
            self._leave_out = self._next_leave_out
            self._next_leave_out = min(2 * self._next_leave_out, LEFT_OUT_MAX)
        return False


class Watch:
    """Lets an event loop do the looking: one that has something to do does not sleep."""

    __slots__ = ("_attention", "_loop")

    def __init__(self, loop: asyncio.AbstractEventLoop, attention: Attention) -> None:
        self._loop = loop
        self._attention = attention

    def answered(self) -> None:
        if self._attention.answered(perf_counter()):
            self._loop.call_soon(self._look)

    def _look(self) -> None:
        if self._attention.looks_on(perf_counter()):
            self._loop.call_soon(self._look)
