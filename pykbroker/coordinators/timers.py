"""Named timers of coordinators; setting a timer again replaces it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.coordination.outcome import CancelTimer, SetTimer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pykbroker.clock import Alarm, Clock

Name = tuple[str, ...]

LOOP_GRAIN_SECONDS = 0.001
"""Event loops have a resolution of milliseconds and can call back this much early."""


class Timers:
    """Calls back with the name of a timer when it is due, unless it was replaced or cancelled.

    Setting a timer to a later time only stores that time, as each heartbeat does. The callback
    checks it and schedules the rest.
    """

    def __init__(
        self,
        clock: Clock,
        fire: Callable[[Name], None],
        may_wait: Callable[[Name], bool] = lambda _: False,
    ) -> None:
        self._clock = clock
        self._fire = fire
        self._may_wait = may_wait
        self._due_seconds: dict[Name, float] = {}
        self._handles: dict[Name, Alarm] = {}

    def apply(self, timers: Iterable[SetTimer | CancelTimer]) -> None:
        for timer in timers:
            if isinstance(timer, SetTimer):
                self.set(timer.name, timer.at_ms)
            else:
                self.cancel(timer.name)

    def set(self, name: Name, at_ms: int) -> None:
        clock = self._clock
        due_seconds = clock.monotonic() + max(0, at_ms - clock.now_ms()) / 1000
        before_seconds = self._due_seconds.get(name)
        self._due_seconds[name] = due_seconds
        if before_seconds is not None and before_seconds <= due_seconds:
            return  # the callback comes early and schedules the rest
        self._schedule(name, due_seconds)

    def set_if_missing(self, name: Name, at_ms: int) -> None:
        if name not in self._due_seconds:
            self.set(name, at_ms)

    def _schedule(self, name: Name, due_seconds: float) -> None:
        if name in self._handles:
            self._handles[name].cancel()
        left_seconds = max(0.0, due_seconds - self._clock.monotonic())
        self._handles[name] = self._clock.call_later(
            left_seconds, self._check, name, may_wait=lambda: self._may_wait(name)
        )

    def _check(self, name: Name) -> None:
        due_seconds = self._due_seconds[name]
        if due_seconds > self._clock.monotonic() + LOOP_GRAIN_SECONDS:
            self._schedule(name, due_seconds)
            return
        del self._due_seconds[name], self._handles[name]
        self._fire(name)

    def cancel(self, name: Name) -> None:
        self._due_seconds.pop(name, None)
        handle = self._handles.pop(name, None)
        if handle is not None:
            handle.cancel()

    def cancel_all(self) -> None:
        for handle in self._handles.values():
            handle.cancel()
        self._handles.clear()
        self._due_seconds.clear()
