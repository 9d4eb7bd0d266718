"""Clock and randomness of a simulated broker."""

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
"""Maximum interval of periodic work while no data arrives from the network."""


QUIET_RESTS_MIN: Final = 64
"""Sleeps without arriving data after which intervals start to grow."""


class VirtualClock:
    """The virtual time of the loop, as one host measures it.

    Its wall clock has an offset; both its clocks can be faster or slower than those of other hosts.

    While no data arrives, intervals of periodic work double up to QUIET_SECONDS_MAX. That is why a
    week without traffic takes seconds. The first arriving byte starts overdue work.
    """

    def __init__(self, loop: VirtualLoop, *, offset_ms: int = 0, rate: float = 1.0) -> None:
        self._loop = loop
        self._offset_ms = offset_ms
        self._rate = rate
        self._resting: dict[asyncio.Future[None], float] = {}
        self._rests_since_arrival = 0

    def now_ms(self) -> int:
        return BEGIN_MS + self._offset_ms + int(self._loop.seconds * self._rate * 1000)

    def monotonic(self) -> float:
        return UPTIME_SECONDS + self._loop.seconds * self._rate

    def call_later(
        self, seconds: float, callback: Callback, *given: object, may_wait: MayWait = never
    ) -> Alarm:
        del may_wait  # virtual time does not jump over alarms
        return self._loop.call_later(seconds / self._rate, callback, *given)

    def expire_later(self, seconds: float, callback: Callback, *given: object) -> Alarm:
        return self._loop.call_later(seconds / self._rate, callback, *given)

    async def sleep(self, seconds: float) -> None:
        self._rests_since_arrival += 1
        future: asyncio.Future[None] = self._loop.create_future()
        seconds /= self._rate
        self._resting[future] = self._loop.seconds + seconds
        timer = self._loop.call_later(self._extended(seconds), _complete, future)
        try:
            await future
        finally:
            timer.cancel()
            del self._resting[future]

    def _extended(self, seconds: float) -> float:
        doublings = min(self._rests_since_arrival // QUIET_RESTS_MIN, 16)
        return max(seconds, min(seconds * float(1 << doublings), QUIET_SECONDS_MAX))

    def something_arrived(self) -> None:
        if self._rests_since_arrival < QUIET_RESTS_MIN:
            self._rests_since_arrival = 0
            return
        self._rests_since_arrival = 0
        for future, due in self._resting.items():
            delay = max(0.0, due - self._loop.seconds)
            self._loop.call_later(delay, _complete, future)


class SeededRandomness:
    """Randomness from the seed."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    def uuid_bytes(self) -> bytes:
        drawn = bytearray(self._chance.randbytes(16))
        drawn[0] &= 0x7F  # base64 text of an id must not begin with a dash
        drawn[6] = drawn[6] & 0x0F | 0x40
        drawn[8] = drawn[8] & 0x3F | 0x80
        return bytes(drawn)

    def below(self, bound: int) -> int:
        return self._chance.randrange(bound)


def _complete(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
