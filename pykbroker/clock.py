"""Time and chance, which whoever needs them takes as arguments."""

import os
import time
from collections.abc import Callable
from typing import Protocol, TypeAlias

Callback: TypeAlias = Callable[..., object]
MayWait: TypeAlias = Callable[[], bool]


def never() -> bool:
    return False


class Alarm(Protocol):
    """Something that will be done when its time has come, unless it is cancelled."""

    def cancel(self) -> None: ...


class Clock(Protocol):
    """What time it is, and whoever waits for a time: a clock that is moved moves both."""

    def now_ms(self) -> int:
        """Milliseconds since 1970, as records carry them; may jump."""
        ...

    def monotonic(self) -> float:
        """Seconds since some moment, never running back; for measuring and for timeouts."""
        ...

    def call_later(
        self, seconds: float, callback: Callback, *given: object, may_wait: MayWait = never
    ) -> Alarm:
        """Calls back on the running event loop when so much time has passed.

        `may_wait` tells whether it is a round that does as much when it comes late.
        """
        ...

    def expire_later(self, seconds: float, callback: Callback, *given: object) -> Alarm:
        """Like `call_later`, for the longest time that a client waits for a response.

        A clock that is moved ahead moves it. It also runs out while the clock stands, because the
        client has a clock of its own.
        """
        ...

    async def sleep(self, seconds: float) -> None:
        """Rest between rounds of work that is done again and again."""
        ...


class Chance(Protocol):
    """What cannot be foreseen."""

    def uuid_bytes(self) -> bytes:
        """A new id for a topic, a directory or a cluster: 16 bytes."""
        ...

    def below(self, bound: int) -> int:
        """A number from 0 up to, not including, `bound`."""
        ...


class SystemClock:
    """The machine's time."""

    __slots__ = ()

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()

    def call_later(
        self, seconds: float, callback: Callback, *given: object, may_wait: MayWait = never
    ) -> Alarm:
        del may_wait  # nobody moves the machine's time
        import asyncio  # noqa: PLC0415 - whoever only asks the time need not load it

        return asyncio.get_running_loop().call_later(seconds, callback, *given)

    def expire_later(self, seconds: float, callback: Callback, *given: object) -> Alarm:
        return self.call_later(seconds, callback, *given)

    async def sleep(self, seconds: float) -> None:
        import asyncio  # noqa: PLC0415 - likewise

        await asyncio.sleep(seconds)


class SystemChance:
    """The machine's randomness."""

    __slots__ = ()

    def uuid_bytes(self) -> bytes:
        while True:
            drawn = bytearray(os.urandom(16))
            drawn[6] = drawn[6] & 0x0F | 0x40  # version 4, random
            drawn[8] = drawn[8] & 0x3F | 0x80  # the variant that has versions
            if not _begins_with_a_dash(drawn):
                return bytes(drawn)

    def below(self, bound: int) -> int:
        assert bound > 0
        # 64 bits more than the bound needs leave no value noticeably more likely than another.
        length = (bound.bit_length() + 7) // 8 + 8
        return int.from_bytes(os.urandom(length), "big") % bound


def _begins_with_a_dash(uuid: bytearray) -> bool:
    """In base64, as Kafka's tools write ids; a command line would take it for an option."""
    return uuid[0] >> 2 == 62
