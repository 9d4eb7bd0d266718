"""The timers of coordinators: named, so that setting one again replaces it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pykbroker.coordination.outcome import CancelTimer, SetTimer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pykbroker.clock import Clock

Name = tuple[str, ...]


class Timers:
    """Calls back with a timer's name when its time has come, unless it was replaced or cancelled.

    A timer that is set again to a later time costs nothing but a look when it fires: heartbeats
    do that all the time.
    """

    def __init__(self, clock: Clock, fire: Callable[[Name], None]) -> None:
        self._clock = clock
        self._fire = fire
        self._due_ms: dict[Name, int] = {}
        self._handles: dict[Name, asyncio.TimerHandle] = {}

    def apply(self, timers: Iterable[SetTimer | CancelTimer]) -> None:
        for timer in timers:
            if isinstance(timer, SetTimer):
                self.set(timer.name, timer.at_ms)
            else:
                self.cancel(timer.name)

    def set(self, name: Name, at_ms: int) -> None:
        before_ms = self._due_ms.get(name)
        self._due_ms[name] = at_ms
        if before_ms is not None and before_ms <= at_ms:
            return  # the handle fires early, sees the new time, and waits on
        self._schedule(name, at_ms)

    def _schedule(self, name: Name, at_ms: int) -> None:
        if name in self._handles:
            self._handles[name].cancel()
        delay_seconds = max(0, at_ms - self._clock.now_ms()) / 1000
        loop = asyncio.get_running_loop()
        self._handles[name] = loop.call_later(delay_seconds, self._look, name)

    def _look(self, name: Name) -> None:
        due_ms = self._due_ms[name]
        if due_ms > self._clock.now_ms():
            self._schedule(name, due_ms)
            return
        del self._due_ms[name], self._handles[name]
        self._fire(name)

    def cancel(self, name: Name) -> None:
        self._due_ms.pop(name, None)
        handle = self._handles.pop(name, None)
        if handle is not None:
            handle.cancel()

    def cancel_all(self) -> None:
        for handle in self._handles.values():
            handle.cancel()
        self._handles.clear()
        self._due_ms.clear()
