"""Interfaces for time and randomness, passed as arguments, and the system's implementations."""

import os
import time
from collections.abc import Callable
from typing import Protocol, TypeAlias

Callback: TypeAlias = Callable[..., object]
MayWait: TypeAlias = Callable[[], bool]


def never() -> bool:
    return False


class Alarm(Protocol):
    """A scheduled callback that can be cancelled."""

    def cancel(self) -> None: ...


class Clock(Protocol):
    """The time and the timers that depend on it; tests move both together."""

    def now_ms(self) -> int:
        """Returns milliseconds since 1970, the unit of record timestamps; can jump."""
        ...

    def monotonic(self) -> float:
        """Returns seconds of a clock that never goes back, for durations and timeouts."""
        ...

    def call_later(
        self, seconds: float, callback: Callback, *given: object, may_wait: MayWait = never
    ) -> Alarm:
        """Calls `callback` on the running event loop after a delay.

        `may_wait` returns True while the callback is periodic work that can run late.
        """
        ...

    def expire_later(self, seconds: float, callback: Callback, *given: object) -> Alarm:
        """Like `call_later`, for the maximum wait of a client request.

        Advancing a test clock advances it. It also expires while a test clock is stopped, because
        the client uses its own clock.
        """
        ...

    async def sleep(self, seconds: float) -> None:
        """Waits between two rounds of periodic work."""
        ...


class Randomness(Protocol):
    """A source of random numbers."""

    def uuid_bytes(self) -> bytes:
        """Returns 16 bytes: a new id for a topic, a directory or a cluster."""
        ...

    def below(self, bound: int) -> int:
        """Returns a number from 0 to `bound` - 1."""
        ...


class SystemClock:
    """The clock of the operating system."""

    __slots__ = ()

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()

    def call_later(
        self, seconds: float, callback: Callback, *given: object, may_wait: MayWait = never
    ) -> Alarm:
        del may_wait  # used only by test clocks
        import asyncio  # noqa: PLC0415 - commands that need only the time do not import it

        return asyncio.get_running_loop().call_later(seconds, callback, *given)

    def expire_later(self, seconds: float, callback: Callback, *given: object) -> Alarm:
        return self.call_later(seconds, callback, *given)

    async def sleep(self, seconds: float) -> None:
        import asyncio  # noqa: PLC0415 - as above

        await asyncio.sleep(seconds)


class SystemRandomness:
    """The random number generator of the operating system."""

    __slots__ = ()

    def uuid_bytes(self) -> bytes:
        while True:
            uuid = bytearray(os.urandom(16))
            uuid[6] = uuid[6] & 0x0F | 0x40  # version 4, random
            uuid[8] = uuid[8] & 0x3F | 0x80  # variant of RFC 9562
            if not _starts_with_dash(uuid):
                return bytes(uuid)

    def below(self, bound: int) -> int:
        assert bound > 0
        # With 64 extra bits the bias of the modulo is negligible.
        length = (bound.bit_length() + 7) // 8 + 8
        return int.from_bytes(os.urandom(length), "big") % bound


def _starts_with_dash(uuid: bytearray) -> bool:
    """Returns whether the base64 form, used by Kafka's tools, would look like an option."""
    return uuid[0] >> 2 == 62
