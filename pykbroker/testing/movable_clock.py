"""The clock of an embedded broker. A test can advance, freeze and skew it."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from pykbroker.clock import never

if TYPE_CHECKING:
    from collections.abc import Callable

    from pykbroker.clock import Callback, MayWait
    from pykbroker.testing.loop_thread import LoopThread

TURNS_TO_SETTLE = 10
"""Loop iterations after a deadline: an expiry appends a record, its commit completes requests."""


class Span(TypedDict, total=False):
    """A duration: the sum of its fields."""

    days: float
    hours: float
    minutes: float
    seconds: float
    milliseconds: float


class MovableClock:
    """Runs with the machine's clock plus the time that a test has advanced.

    There are three kinds of alarms. A deadline (a session timeout) rings at its own time: `advance`
    stops at each one in order. A round of periodic work (retention) may wait: `advance` runs one
    round at the end, however far it moves the clock. The timeout of a waiting request (a Fetch with
    `max_wait_ms`) may wait, too, and also ends while the clock is frozen: without a response the
    client's connection would be blocked.
    """

    def __init__(self, note: Callable[[str], None] = lambda _: None) -> None:
        self._note = note
        """Called with a line for the timeline when the test changes the clock."""
        self._ahead_seconds = 0.0
        self._wall_skew_ms = 0
        self._frozen_at: tuple[float, int] | None = None
        self._waiting: set[Alarm] = set()
        self._at_work: set[asyncio.Task[Any]] = set()
        self._all_waiting = asyncio.Event()

    # --- for the broker

    def monotonic(self) -> float:
        machine = time.monotonic() if self._frozen_at is None else self._frozen_at[0]
        return machine + self._ahead_seconds

    def now_ms(self) -> int:
        machine_ms = time.time_ns() // 1_000_000 if self._frozen_at is None else self._frozen_at[1]
        return machine_ms + round(self._ahead_seconds * 1000) + self._wall_skew_ms

    def call_later(
        self, seconds: float, callback: Callback, *given: object, may_wait: MayWait = never
    ) -> Alarm:
        due = self.monotonic() + seconds
        return self._set(Alarm(self, due, lambda: callback(*given), may_wait=may_wait))

    def expire_later(self, seconds: float, callback: Callback, *given: object) -> Alarm:
        due = self.monotonic() + seconds
        return self._set(
            Alarm(self, due, lambda: callback(*given), may_wait=always, rings_while_frozen=True)
        )

    async def sleep(self, seconds: float) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._waits(task)
        future = asyncio.get_running_loop().create_future()
        due = self.monotonic() + seconds
        alarm = self._set(Alarm(self, due, lambda: complete(future), may_wait=always))
        try:
            await future
        finally:
            alarm.cancel()
        self._at_work.add(task)
        task.add_done_callback(self._waits)

    def _waits(self, task: asyncio.Task[Any]) -> None:
        self._at_work.discard(task)
        if not self._at_work:
            self._all_waiting.set()

    def _set(self, alarm: Alarm) -> Alarm:
        self._waiting.add(alarm)
        alarm.arm()
        return alarm

    # --- for the test, on the broker's event loop

    @property
    def now(self) -> datetime:
        return datetime.fromtimestamp(self.now_ms() / 1000, tz=UTC)

    @property
    def is_frozen(self) -> bool:
        return self._frozen_at is not None

    async def advance(self, **span: Unpack[Span]) -> None:
        """Advances the clock and returns when all work that became due is done."""
        ahead_seconds = timedelta(**span).total_seconds()
        if ahead_seconds < 0:
            raise ValueError("the clock cannot go back: advance() needs a positive duration")
        self._note(f"test: clock advanced by {text_of(ahead_seconds)}")
        await self._move_to(self.monotonic() + ahead_seconds)

    async def _move_to(self, target: float) -> None:
        while (deadline := self._first(until=target, rounds=False)) is not None:
            self._stand_at(deadline.due)
            deadline.ring()
            await self._settle()
        self._stand_at(target)
        while (periodic := self._first(until=target, rounds=True)) is not None:
            periodic.ring()
        await self._settle()
        self._arm_all()

    def _first(self, *, until: float, rounds: bool) -> Alarm | None:
        due = (it for it in self._waiting if it.due <= until and it.may_wait() is rounds)
        return min(due, key=lambda it: it.due, default=None)

    def _stand_at(self, moment: float) -> None:
        self._ahead_seconds += max(0.0, moment - self.monotonic())

    async def _settle(self) -> None:
        """Returns when the tasks that an alarm has resumed wait again."""
        for _ in range(TURNS_TO_SETTLE):
            await asyncio.sleep(0)
        while self._at_work:
            self._all_waiting = asyncio.Event()  # a restarted broker may use another loop
            await self._all_waiting.wait()

    def freeze(self) -> None:
        """Stops the clock. Nothing becomes due until `advance` or `run`."""
        if self._frozen_at is None:
            self._note("test: clock frozen")
            self._frozen_at = time.monotonic(), time.time_ns() // 1_000_000
            self._arm_all()

    def run(self) -> None:
        """Continues a frozen clock at the time at which it stopped."""
        if self._frozen_at is not None:
            self._note("test: clock running")
            frozen_seconds = time.monotonic() - self._frozen_at[0]
            self._frozen_at = None
            self._ahead_seconds -= frozen_seconds
            self._arm_all()

    def skew(self, **span: Unpack[Span]) -> None:
        """Shifts the wall clock by a duration, forward or back. `skew()` removes the shift.

        Nothing becomes due: timeouts use the monotonic clock, which is not shifted.
        """
        skew_seconds = timedelta(**span).total_seconds()
        self._wall_skew_ms = round(skew_seconds * 1000)
        self._note(f"test: wall clock skewed by {text_of(skew_seconds)}")

    def reset(self) -> None:
        """Returns to the machine's time. The remaining time of each alarm stays the same."""
        self._wall_skew_ms = 0
        before = self.monotonic()
        self._frozen_at, self._ahead_seconds = None, 0.0
        shift = self.monotonic() - before
        for alarm in self._waiting:
            alarm.due += shift
        self._arm_all()

    def copy_from(self, other: MovableClock) -> None:
        """Takes over the time, the skew and the frozen state of another clock."""
        self._frozen_at = other._frozen_at
        self._ahead_seconds = other._ahead_seconds
        self._wall_skew_ms = other._wall_skew_ms

    def _arm_all(self) -> None:
        for alarm in tuple(self._waiting):
            alarm.arm()

    def remove(self, alarm: Alarm) -> None:
        self._waiting.discard(alarm)


class Alarm:
    """Calls a function once: at its time, or when the clock is advanced past it."""

    def __init__(
        self,
        clock: MovableClock,
        due: float,
        callback: Callable[[], object],
        *,
        may_wait: MayWait,
        rings_while_frozen: bool = False,
    ) -> None:
        self.due = due
        self.may_wait = may_wait
        self._rings_while_frozen = rings_while_frozen
        self._clock = clock
        self._callback = callback
        self._handle: asyncio.TimerHandle | None = None

    def arm(self) -> None:
        """Starts a timer of the event loop, unless the clock is frozen."""
        self._disarm()
        if self._rings_while_frozen or not self._clock.is_frozen:
            left_seconds = max(0.0, self.due - self._clock.monotonic())
            self._handle = asyncio.get_running_loop().call_later(left_seconds, self.ring)

    def ring(self) -> None:
        self.cancel()
        self._callback()

    def cancel(self) -> None:
        self._disarm()
        self._clock.remove(self)

    def _disarm(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None


class BlockingClock:
    """The clock for tests without an event loop. Calls block until they are done."""

    def __init__(self, clock: MovableClock, loop: LoopThread) -> None:
        self._clock = clock
        self._loop = loop

    @property
    def now(self) -> datetime:
        return self._clock.now

    def now_ms(self) -> int:
        return self._clock.now_ms()

    def advance(self, **span: Unpack[Span]) -> None:
        """Advances the clock and returns when all work that became due is done."""
        self._loop.run(self._clock.advance(**span))

    def freeze(self) -> None:
        """Stops the clock. Nothing becomes due until `advance` or `run`."""
        self._loop.call(self._clock.freeze)

    def run(self) -> None:
        """Continues a frozen clock at the time at which it stopped."""
        self._loop.call(self._clock.run)

    def skew(self, **span: Unpack[Span]) -> None:
        """Shifts the wall clock by a duration, forward or back. `skew()` removes the shift.

        Nothing becomes due: timeouts use the monotonic clock, which is not shifted.
        """
        self._loop.call(lambda: self._clock.skew(**span))


def always() -> bool:
    return True


def complete(future: asyncio.Future[None]) -> None:
    """Completes the future of a sleeping task, unless the task is already cancelled."""
    if not future.done():
        future.set_result(None)


def text_of(seconds: float) -> str:
    """Formats `-1:00:00` for an hour back, where str(timedelta) gives `-1 day, 23:00:00`."""
    sign = "-" if seconds < 0 else ""
    return f"{sign}{timedelta(seconds=abs(seconds))}"
