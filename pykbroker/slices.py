"""Runs long work in slices, between which the event loop runs other callbacks.

Such work is a generator that yields after each slice. All generators share one queue: the loop runs
one slice per iteration, independent of the length of the queue.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

from pykbroker_protocol.compiler import SLICE_ELEMENTS

if TYPE_CHECKING:
    from collections.abc import Generator

__all__ = ["SLICE_ELEMENTS", "Slices", "in_slices", "next_turn"]

T = TypeVar("T")
Slices: TypeAlias = "Generator[None, None, T]"
"""A generator that yields after each slice and returns the result."""


async def in_slices(slices: Slices[T], *, begins_at_once: bool = False) -> T:
    """Runs a generator to its end, one slice per turn, and closes it also on cancellation."""
    try:
        if begins_at_once:
            next(slices)
        while True:
            await next_turn()
            next(slices)
    except StopIteration as done:
        result: T = done.value
        return result
    finally:
        slices.close()


class Turns:
    """The queue of work that waits for its next slice; each loop iteration runs one."""

    __slots__ = ("_is_scheduled", "_loop", "_waiting")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._is_scheduled = False

    def wait(self) -> asyncio.Future[None]:
        turn: asyncio.Future[None] = self._loop.create_future()
        self._waiting.append(turn)
        self._schedule()
        return turn

    def _schedule(self) -> None:
        if not self._is_scheduled and self._waiting:
            self._is_scheduled = True
            self._loop.call_soon(self._give_turn)

    def _give_turn(self) -> None:
        self._is_scheduled = False
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.cancelled():
                turn.set_result(None)
                break
        self._schedule()


_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, Turns] = WeakKeyDictionary()


def next_turn() -> asyncio.Future[None]:
    """Returns a future that completes when the caller can run its next slice."""
    loop = asyncio.get_running_loop()
    turns = _turns.get(loop)
    if turns is None:
        turns = _turns[loop] = Turns(loop)
    return turns.wait()
