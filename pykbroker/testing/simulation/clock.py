"""Time and chance as a simulated broker takes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pykbroker.clock import never
from pykbroker.testing.simulation.patched_runtime import BEGIN_MS, UPTIME_SECONDS

if TYPE_CHECKING:
    import asyncio
    import random

    from pykbroker.clock import Alarm, Callback, MayWait
    from pykbroker.testing.simulation.virtual_loop import VirtualLoop

QUIET_SECONDS_MAX: Final = 300.0
"""The longest that a round of work may be put off while nothing comes over the network."""


QUIET_RESTS_MIN: Final = 64
"""After so many rounds in which nothing came it is quiet."""


class VirtualClock:
    """The loop's time.

    Rounds of work that is done again and again are put off, twice as long each time, while nothing
    arrives from anybody: that is how a quiet week takes seconds. The first byte that arrives
    wakes those that are over due.
    """

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        self._resting: dict[asyncio.Future[None], float] = {}
        self._rests_since_arrival = 0

    def now_ms(self) -> int:
        return BEGIN_MS + int(self._loop.seconds * 1000)

    def monotonic(self) -> float:
        return UPTIME_SECONDS + self._loop.seconds

    def call_later(
        self, seconds: float, callback: Callback, *given: object, may_wait: MayWait = never
    ) -> Alarm:
        del may_wait  # here time passes in order
        return self._loop.call_later(seconds, callback, *given)

    def expire_later(self, seconds: float, callback: Callback, *given: object) -> Alarm:
        return self._loop.call_later(seconds, callback, *given)

    async def sleep(self, seconds: float) -> None:
        self._rests_since_arrival += 1
        woken: asyncio.Future[None] = self._loop.create_future()
        self._resting[woken] = self._loop.seconds + seconds
        timer = self._loop.call_later(self._put_off(seconds), _wake, woken)
        try:
            await woken
        finally:
            timer.cancel()
            del self._resting[woken]

    def _put_off(self, seconds: float) -> float:
        doublings = min(self._rests_since_arrival // QUIET_RESTS_MIN, 16)
        return max(seconds, min(seconds * float(1 << doublings), QUIET_SECONDS_MAX))

    def something_arrived(self) -> None:
        if self._rests_since_arrival < QUIET_RESTS_MIN:
            self._rests_since_arrival = 0
            return
        self._rests_since_arrival = 0
        for woken, due in self._resting.items():
            delay = max(0.0, due - self._loop.seconds)
            self._loop.call_later(delay, _wake, woken)


class SeededChance:
    """The same draws for the same seed."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    def uuid_bytes(self) -> bytes:
        drawn = bytearray(self._chance.randbytes(16))
        drawn[0] &= 0x7F  # so that no id begins with a dash in base64
        drawn[6] = drawn[6] & 0x0F | 0x40
        drawn[8] = drawn[8] & 0x3F | 0x80
        return bytes(drawn)

    def below(self, bound: int) -> int:
        return self._chance.randrange(bound)


def _wake(woken: asyncio.Future[None]) -> None:
    if not woken.done():
        woken.set_result(None)
