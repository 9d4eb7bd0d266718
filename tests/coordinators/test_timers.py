"""Timers use the monotonic clock; jumps of the wall clock do not change them."""

from collections.abc import Callable

import pytest

from pykbroker.clock import Callback, MayWait, never
from pykbroker.coordinators.timers import Timers


class Alarm:
    def __init__(self, due: float, ring: Callable[[], object]) -> None:
        self.due, self.ring, self.is_over = due, ring, False

    def cancel(self) -> None:
        self.is_over = True


class WrongClock:
    """`pass_by` advances the time; the wall clock is off by `wrong_ms`."""

    def __init__(self) -> None:
        self.seconds = 1000.0
        self.wrong_ms = 0
        self._alarms: list[Alarm] = []

    def monotonic(self) -> float:
        return self.seconds

    def now_ms(self) -> int:
        return round(self.seconds * 1000) + self.wrong_ms

    def call_later(
        self, seconds: float, callback: Callback, *given: object, may_wait: MayWait = never
    ) -> Alarm:
        del may_wait
        alarm = Alarm(self.seconds + seconds, lambda: callback(*given))
        self._alarms.append(alarm)
        return alarm

    def expire_later(self, seconds: float, callback: Callback, *given: object) -> Alarm:
        return self.call_later(seconds, callback, *given)

    async def sleep(self, seconds: float) -> None:
        raise NotImplementedError

    def pass_by(self, seconds: float) -> None:
        until = self.seconds + seconds
        while due := [it for it in self._alarms if not it.is_over and it.due <= until]:
            first = min(due, key=lambda it: it.due)
            first.cancel()
            self.seconds = max(self.seconds, first.due)
            first.ring()
        self.seconds = until


@pytest.mark.parametrize("jump_ms", [-86_400_000, 0, 86_400_000])
def test_a_jump_of_the_wall_clock_does_not_change_timers(jump_ms: int) -> None:
    clock, fired = WrongClock(), list[tuple[str, ...]]()
    timers = Timers(clock, fired.append)
    timers.set(("session",), clock.now_ms() + 10_000)
    clock.pass_by(5)
    clock.wrong_ms += jump_ms
    clock.pass_by(4.9)
    assert fired == []
    clock.pass_by(0.2)
    assert fired == [("session",)]


@pytest.mark.parametrize("jump_ms", [-86_400_000, 0, 86_400_000])
def test_a_timer_that_is_set_again_starts_over(jump_ms: int) -> None:
    clock, fired = WrongClock(), list[tuple[str, ...]]()
    timers = Timers(clock, fired.append)
    for _ in range(4):
        timers.set(("session",), clock.now_ms() + 10_000)
        clock.pass_by(9)
        clock.wrong_ms += jump_ms
    assert fired == []
    clock.pass_by(2)
    assert fired == [("session",)]


def test_a_timer_can_be_set_to_an_earlier_time_and_cancelled() -> None:
    clock, fired = WrongClock(), list[tuple[str, ...]]()
    timers = Timers(clock, fired.append)
    timers.set(("a",), clock.now_ms() + 10_000)
    timers.set(("a",), clock.now_ms() + 1_000)
    timers.set(("b",), clock.now_ms() + 1_000)
    timers.cancel(("b",))
    clock.pass_by(1.5)
    assert fired == [("a",)]
    clock.pass_by(20)
    assert fired == [("a",)]
