"""A broker's clock in the hands of a test: it can be moved ahead, and made to stand still."""

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
"""Of the event loop: a deadline leads to a record, its commit, and to whoever waited for it."""


class Span(TypedDict, total=False):
    """So much time, added up."""

    days: float
    hours: float
    minutes: float
    seconds: float
    milliseconds: float


class MovableClock:
    """Runs with the machine's clock, so far ahead of it as a test has moved it.

    It keeps three kinds of waiting apart. A deadline is a moment (a session is over), and the clock
    stops at each one on its way. A round is work done again and again (retention) and may wait:
    however far the clock is moved, one round at the end does what all of them would have done.
    The wait of a client (a Fetch with `max_wait_ms`) is a round that also ends while the clock
    stands: a response that never comes would block the client's connection.
    """

    def __init__(self, note: Callable[[str], None] = lambda _: None) -> None:
        self._note = note
        """Hears what the test does to it."""
        self._ahead_seconds = 0.0
        self._wall_wrong_ms = 0
        self._standing: tuple[float, int] | None = None
        self._waiting: set[Alarm] = set()
        self._at_work: set[asyncio.Task[Any]] = set()
        self._all_rest = asyncio.Event()

    # --- for the broker

    def monotonic(self) -> float:
        machine = time.monotonic() if self._standing is None else self._standing[0]
        return machine + self._ahead_seconds

    def now_ms(self) -> int:
        machine_ms = time.time_ns() // 1_000_000 if self._standing is None else self._standing[1]
        return machine_ms + round(self._ahead_seconds * 1000) + self._wall_wrong_ms

    def call_later(
        self, seconds: float, callback: Callback, *given: object, may_wait: MayWait = never
    ) -> Alarm:
        due = self.monotonic() + seconds
        return self._set(Alarm(self, due, lambda: callback(*given), may_wait=may_wait))

    def expire_later(self, seconds: float, callback: Callback, *given: object) -> Alarm:
        due = self.monotonic() + seconds
        return self._set(
            Alarm(self, due, lambda: callback(*given), may_wait=always, ends_while_standing=True)
        )

    async def sleep(self, seconds: float) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._rests(task)
        woken = asyncio.get_running_loop().create_future()
        due = self.monotonic() + seconds
        alarm = self._set(Alarm(self, due, lambda: wake(woken), may_wait=always))
        try:
            await woken
        finally:
            alarm.cancel()
        self._at_work.add(task)
        task.add_done_callback(self._rests)

    def _rests(self, task: asyncio.Task[Any]) -> None:
        self._at_work.discard(task)
        if not self._at_work:
            self._all_rest.set()

    def _set(self, alarm: Alarm) -> Alarm:
        self._waiting.add(alarm)
        alarm.arm()
        return alarm

    # --- for the test, on the broker's event loop

    @property
    def now(self) -> datetime:
        return datetime.fromtimestamp(self.now_ms() / 1000, tz=UTC)

    @property
    def stands(self) -> bool:
        return self._standing is not None

    async def advance(self, **span: Unpack[Span]) -> None:
        """Moves the clock ahead, and returns when everything that was due has been done."""
        ahead_seconds = timedelta(**span).total_seconds()
        if ahead_seconds < 0:
            raise ValueError("a broker's clock is moved ahead, never back")
        self._note(f"the test moves the clock ahead by {text_of(ahead_seconds)}")
        await self._move_to(self.monotonic() + ahead_seconds)

    async def _move_to(self, target: float) -> None:
        while (deadline := self._first(until=target, rounds=False)) is not None:
            self._stand_at(deadline.due)
            deadline.ring()
            await self._settle()
        self._stand_at(target)
        while (of_a_round := self._first(until=target, rounds=True)) is not None:
            of_a_round.ring()
        await self._settle()
        self._arm_all()

    def _first(self, *, until: float, rounds: bool) -> Alarm | None:
        due = (it for it in self._waiting if it.due <= until and it.may_wait() is rounds)
        return min(due, key=lambda it: it.due, default=None)

    def _stand_at(self, moment: float) -> None:
        self._ahead_seconds += max(0.0, moment - self.monotonic())

    async def _settle(self) -> None:
        """Returns when what was woken has done its work and waits again."""
        for _ in range(TURNS_TO_SETTLE):
            await asyncio.sleep(0)
        while self._at_work:
            self._all_rest = asyncio.Event()  # a new one: the broker may have moved to another loop
            await self._all_rest.wait()

    def freeze(self) -> None:
        """The clock stands: nothing becomes due until it is advanced, or runs again."""
        if self._standing is None:
            self._note("the test stops the clock")
            self._standing = time.monotonic(), time.time_ns() // 1_000_000
            self._arm_all()

    def run(self) -> None:
        """The clock runs on from where it stood."""
        if self._standing is not None:
            self._note("the test lets the clock run on")
            stood_seconds = time.monotonic() - self._standing[0]
            self._standing = None
            self._ahead_seconds -= stood_seconds
            self._arm_all()

    def skew(self, **span: Unpack[Span]) -> None:
        """Sets the wall clock wrong by so much, forwards or back; `skew()` puts it right again.

        Nothing becomes due by it: how long something has lasted is measured by another clock,
        which is right.
        """
        wrong_seconds = timedelta(**span).total_seconds()
        self._wall_wrong_ms = round(wrong_seconds * 1000)
        self._note(f"the test sets the wall clock wrong by {text_of(wrong_seconds)}")

    def return_to_the_present(self) -> None:
        """The machine's time again; whoever waits has as long to wait as before."""
        self._wall_wrong_ms = 0
        before = self.monotonic()
        self._standing, self._ahead_seconds = None, 0.0
        shift = self.monotonic() - before
        for alarm in self._waiting:
            alarm.due += shift
        self._arm_all()

    def run_beside(self, other: MovableClock) -> None:
        """As far ahead as another clock, as wrong, and standing where that one stands."""
        self._standing = other._standing
        self._ahead_seconds = other._ahead_seconds
        self._wall_wrong_ms = other._wall_wrong_ms

    def _arm_all(self) -> None:
        for alarm in tuple(self._waiting):
            alarm.arm()

    def forget(self, alarm: Alarm) -> None:
        self._waiting.discard(alarm)


class Alarm:
    """Rings once, at its moment or when the clock is moved past it."""

    def __init__(
        self,
        clock: MovableClock,
        due: float,
        callback: Callable[[], object],
        *,
        may_wait: MayWait,
        ends_while_standing: bool = False,
    ) -> None:
        self.due = due
        self.may_wait = may_wait
        self._ends_while_standing = ends_while_standing
        self._clock = clock
        self._callback = callback
        self._handle: asyncio.TimerHandle | None = None

    def arm(self) -> None:
        """By the machine's clock, as long as both run alike."""
        self._disarm()
        if self._ends_while_standing or not self._clock.stands:
            left_seconds = max(0.0, self.due - self._clock.monotonic())
            self._handle = asyncio.get_running_loop().call_later(left_seconds, self.ring)

    def ring(self) -> None:
        self.cancel()
        self._callback()

    def cancel(self) -> None:
        self._disarm()
        self._clock.forget(self)

    def _disarm(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None


class BlockingClock:
    """The same for a test without an event loop: each call returns when the thing is done."""

    def __init__(self, clock: MovableClock, loop: LoopThread) -> None:
        self._clock = clock
        self._loop = loop

    @property
    def now(self) -> datetime:
        return self._clock.now

    def now_ms(self) -> int:
        return self._clock.now_ms()

    def advance(self, **span: Unpack[Span]) -> None:
        """Moves the clock ahead, and returns when everything that was due has been done."""
        self._loop.run(self._clock.advance(**span))

    def freeze(self) -> None:
        """The clock stands: nothing becomes due until it is advanced, or runs again."""
        self._loop.call(self._clock.freeze)

    def run(self) -> None:
        """The clock runs on from where it stood."""
        self._loop.call(self._clock.run)

    def skew(self, **span: Unpack[Span]) -> None:
        """Sets the wall clock wrong by so much, forwards or back; `skew()` puts it right again.

        Nothing becomes due by it: how long something has lasted is measured by another clock,
        which is right.
        """
        self._loop.call(lambda: self._clock.skew(**span))


def always() -> bool:
    return True


def wake(sleeper: asyncio.Future[None]) -> None:
    """Unless it has been cancelled and only has not noticed yet."""
    if not sleeper.done():
        sleeper.set_result(None)


def text_of(seconds: float) -> str:
    """`8 days, 0:00:00`; a timedelta says `-1 day, 23:00:00` of an hour back."""
    sign = "-" if seconds < 0 else ""
    return f"{sign}{timedelta(seconds=abs(seconds))}"
