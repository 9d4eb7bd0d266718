"""Paused hosts and hosts with a clock of their own."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pykbroker.testing.simulation import Simulation
from pykbroker.testing.simulation.clock import VirtualClock

if TYPE_CHECKING:
    from pykbroker.testing.simulation.world import Simulation as World


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.readline():
        writer.write(data)


async def serve() -> None:
    await asyncio.start_server(echo, "server", 80)


async def ask(text: bytes, writer: asyncio.StreamWriter, reader: asyncio.StreamReader) -> bytes:
    writer.write(text)
    return await reader.readline()


def test_a_paused_host_answers_after_the_pause() -> None:
    with Simulation(1) as world:
        assert world.run(answer_of_a_paused_server(world)) == (b"later\n", True)


async def answer_of_a_paused_server(world: World) -> tuple[bytes, bool]:
    await world.start("server", serve())
    reader, writer = await asyncio.open_connection("server", 80)
    assert await ask(b"now\n", writer, reader) == b"now\n"
    world.pause("server")
    asking = asyncio.ensure_future(ask(b"later\n", writer, reader))
    await asyncio.sleep(30)
    was_answered = asking.done()
    began = world.seconds
    world.resume("server")
    return await asking, not was_answered and world.seconds - began < 1


def test_a_connection_to_a_paused_host_is_accepted_after_the_pause() -> None:
    async def run() -> bytes:
        await world.start("server", serve())
        world.pause("server")
        reader, writer = await asyncio.open_connection("server", 80)
        asking = asyncio.ensure_future(ask(b"x\n", writer, reader))
        await asyncio.sleep(5)
        assert not asking.done()
        world.resume("server")
        return await asking

    with Simulation(1) as world:
        assert world.run(run()) == b"x\n"


def test_timers_of_a_paused_host_fire_at_its_end() -> None:
    async def ticks() -> None:
        while True:
            await asyncio.sleep(1)
            seen.append(world.seconds)

    async def run() -> None:
        world.start("a", ticks())
        await asyncio.sleep(2.5)
        world.pause("a")
        await asyncio.sleep(10)
        assert len(seen) == 2
        world.resume("a")
        await asyncio.sleep(0.1)

    seen: list[float] = []
    with Simulation(1) as world:
        world.run(run())
    assert [int(it) for it in seen] == [1, 2, 12]


def test_data_of_a_host_that_is_paused_after_sending_arrives() -> None:
    async def send() -> None:
        _, writer = await asyncio.open_connection("server", 80)
        writer.write(b"sent\n")
        world.pause("sender")

    async def record(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        received.append(await reader.readline())

    async def run() -> None:
        await world.start("server", listen())
        world.start("sender", send())
        await asyncio.sleep(2)

    async def listen() -> None:
        await asyncio.start_server(record, "server", 80)

    received: list[bytes] = []
    with Simulation(1) as world:
        world.run(run())
    assert received == [b"sent\n"]


def test_a_fast_clock_measures_more_time() -> None:
    async def run() -> None:
        began = fast.monotonic(), fast.now_ms(), world.seconds
        assert fast.now_ms() - world.clock.now_ms() == 5_000
        fired: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        fast.call_later(11, fired.set_result, None)
        await fired
        assert round(world.seconds - began[2], 1) == 10
        assert round(fast.monotonic() - began[0], 1) == 11
        assert round((fast.now_ms() - began[1]) / 1000, 1) == 11

    with Simulation(1) as world:
        fast = VirtualClock(world._loop, offset_ms=5_000, rate=1.1)
        world.run(run())


def test_a_broker_serves_requests_after_a_pause() -> None:
    async def run() -> None:
        kafka = await world.add_broker({"orders": 1})
        world.pause(kafka)
        await asyncio.sleep(60)
        world.resume(kafka)
        await world.restart(kafka)

    with Simulation(1) as world:
        world.run(run())
