"""Two equal brokers that get the same requests; one of them never uses a fast path."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, cast

from pykbroker.apis.answers import ProtocolViolation, Waiting
from pykbroker.apis.dispatch import Dispatcher
from pykbroker.apis.peer import Peer
from pykbroker.broker import Broker
from pykbroker.clock import SystemClock
from pykbroker.controller_access import NewTopic
from pykbroker.environment import Environment
from pykbroker.settings import load_settings
from pykbroker_storage.filesystem import VolatileDisk

if TYPE_CHECKING:
    import random
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from pykbroker.apis.answers import Ready
    from pykbroker.apis.dispatch import Route
    from pykbroker.apis.node import Call
    from pykbroker_protocol.frame import RequestHeader
    from pykbroker_storage.log import Log

NOW_MS = 1_795_000_000_000


class StillClock(SystemClock):
    def now_ms(self) -> int:
        return NOW_MS


class Dice:
    """Fixed random numbers, so that both brokers assign the same topic ids."""

    def __init__(self) -> None:
        self.thrown = 0

    def uuid_bytes(self) -> bytes:
        self.thrown += 1
        return self.thrown.to_bytes(16, "big")

    def below(self, bound: int) -> int:  # noqa: ARG002 - a Randomness
        return 0


class CountingDispatcher(Dispatcher):
    """Counts the requests that reach handlers."""

    handled = 0

    def find_route(self, header: RequestHeader) -> Route | None:
        route = super().find_route(header)
        assert route is not None

        def handle(request: Any, call: Call) -> Any:
            self.handled += 1
            return route.handle(request, call)

        counting = self._routes[header.api_key, header.api_version] = route._replace(handle=handle)
        return counting


class Side:
    """A broker with one connection."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.dispatcher = CountingDispatcher(broker.node)
        self.peer = Peer(host="127.0.0.1", port=1, listener="PLAINTEXT", connection_id=1)

    def answer(self, frame: bytes) -> object:
        try:
            answer = self.dispatcher.serve(memoryview(bytearray(frame)), self.peer)
        except ProtocolViolation as violation:
            return violation.reason
        if isinstance(answer, Waiting):
            answer = run_to_end(answer.awaitable)
        return None if answer is None else b"".join(answer)

    def logs(self) -> dict[str, bytes]:
        return {
            str(it): stored_bytes(it.log)
            for it in self.broker.partitions
            if it.log.log_end_offset > it.log.log_start_offset
        }


def stored_bytes(log: Log) -> bytes:
    found = log.read(log.log_start_offset, bytes_max=1 << 30, end_offset=log.log_end_offset)
    assert found is not None
    return bytes(found.view)


def run_to_end(awaitable: Awaitable[Ready]) -> Ready:
    """Runs a coroutine that does not wait."""
    waiting = awaitable.__await__()
    try:
        next(waiting)
    except StopIteration as end:
        return cast("Ready", end.value)
    raise AssertionError("it waits")


class TwoBrokers:
    """Two equal brokers; one of them does not use fast paths."""

    def __init__(self, general: Side, fast: Side) -> None:
        self.general, self.fast = general, fast
        self.asked = 0

    def ask(self, frame: bytes) -> object:
        self.asked += 1
        self.general.peer.repeats = None
        expected = self.general.answer(frame)
        assert self.fast.answer(frame) == expected
        return expected

    @property
    def fast_count(self) -> int:
        """The number of requests served by a fast path."""
        return self.general.dispatcher.handled - self.fast.dispatcher.handled

    async def each(self, do: Callable[[Broker], Any]) -> None:
        for side in (self.general, self.fast):
            await do(side.broker)


def corrupted(frame: bytes, dice: random.Random) -> bytes:
    """Flips bits after API key and version, and can truncate the frame."""
    data = bytearray(frame)
    for _ in range(dice.choice((1, 1, 2, 5))):
        data[dice.randrange(4, len(data))] ^= 1 << dice.randrange(8)
    if not dice.randrange(4):
        del data[dice.randrange(8, len(data)) :]
    return bytes(data)


@asynccontextmanager
async def two_brokers(directory: Path, **topic: Any) -> AsyncIterator[TwoBrokers]:
    async with asyncio.timeout(60):
        sides: list[Side] = []
        try:
            sides.append(await new_side(directory / "general", topic))
            sides.append(await new_side(directory / "fast", topic))
            brokers = TwoBrokers(*sides)
            yield brokers
            assert brokers.fast.logs() == brokers.general.logs()
        finally:
            for side in sides:
                await side.broker.stop()


async def new_side(directory: Path, topic: dict[str, Any]) -> Side:
    properties = {
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "advertised.listeners": "PLAINTEXT://127.0.0.1:9092",
        "log.dirs": str(directory),
    }
    settings = load_settings(properties)
    environment = Environment(clock=StillClock(), randomness=Dice(), filesystem=VolatileDisk())
    broker = await Broker.start(settings, environment)
    side = Side(broker)
    await broker.controller.create_topics(
        [NewTopic(**{"name": "trucks", "partitions": 3, **topic})]
    )
    return side
