"""Groups with failures: every record is processed, and a partition has one owner at a time."""

from __future__ import annotations

import asyncio
import errno

import pytest

from pykbroker.testing.history import count_deliveries, expect_sound
from pykbroker.testing.simulation import SOFT, Simulation, seeds
from tests.simulation.aiokafka_clients import (
    PARTITIONS,
    TOPIC,
    Clients,
    read_all,
    read_in_group,
    until,
    write,
)
from tests.simulation.consumer_group_members import Member, Ownership
from tests.simulation.relays import SINK, origin_of, relay
from tests.simulation.scenarios import BROKER, play_members

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("seed", seeds(5))
def test_a_group_processes_every_record(seed: int) -> None:
    """Members are killed and restarted; they commit after processing."""
    with Simulation(seed) as world:
        kafka = world.broker(topics={TOPIC: PARTITIONS})
        clients, done = Clients(kafka, world.chance_of("clients")), set[str]()

        async def run() -> None:
            async with world.chaos(*SOFT, every_seconds=3), world.chaos(every_seconds=4):
                for number in range(3):
                    world.start(f"r{number}", read_in_group(clients, "readers", done))
                writing = [world.start(f"w{it}", write(clients, 25)) for it in range(2)]
                for _ in range(3):
                    await asyncio.sleep(clients.chance.uniform(1, 8))
                    number = clients.chance.randrange(3)
                    await world.kill(f"r{number}")
                    world.start(f"r{number}", read_in_group(clients, "readers", done))
                await asyncio.gather(*writing)
            everything = set(await read_all(clients))
            await until(lambda: done == everything)
            expect_sound(clients.history)

        world.run(run())


@pytest.mark.parametrize("seed", seeds(5))
def test_relays_deliver_exactly_once(seed: int) -> None:
    """Relays are killed, or replaced and fenced while they are partitioned."""
    with Simulation(seed) as world:
        kafka = world.broker(topics={TOPIC: PARTITIONS, SINK: PARTITIONS})
        clients = Clients(kafka, world.chance_of("clients"))
        world.network.delivers_after_close = False  # see test_protocol_limits.py

        async def run() -> None:
            async with world.chaos(*SOFT, every_seconds=3), world.chaos(every_seconds=4):
                for number in range(PARTITIONS):
                    world.start(f"relay-{number}", relay(clients, number))
                writing = [world.start(f"w{it}", write(clients, 20)) for it in range(2)]
                for turn in range(4):
                    await asyncio.sleep(clients.chance.uniform(1, 6))
                    number = clients.chance.randrange(PARTITIONS)
                    if clients.chance.random() < 0.5:
                        await world.kill(f"relay-{number}")
                    world.start(f"relay-{number}-{turn}", relay(clients, number))
                await asyncio.gather(*writing)
            await read_all(clients)
            await until(lambda: len(kafka.records(SINK)) >= len(kafka.records(TOPIC)))
            await read_all(clients, topic=SINK)
            found = count_deliveries(clients.history, source=TOPIC, sink=SINK, origin=origin_of)
            assert found.are_exactly_once, found

        world.run(run())


@pytest.mark.parametrize("seed", seeds(5))
def test_two_members_of_a_consumer_group_never_own_the_same_partition(seed: int) -> None:
    play_members(seed)


def test_a_session_that_expires_on_a_full_disk_ends_when_there_is_space() -> None:
    """Otherwise the member would stay, and its partitions would not be reassigned."""
    with Simulation(1) as world:
        kafka = world.broker(topics={TOPIC: 4}, config=BROKER)
        ownership = Ownership(lambda: world.seconds)
        members = [Member(f"member-{number}", TOPIC, ownership) for number in range(2)]

        async def run() -> None:
            for member in members:
                world.start(member.name, member.live(kafka))
            await asyncio.sleep(5)
            assert {len(member.owned) for member in members} == {2}
            await world.kill("member-0")
            kafka.disk.refuse(errno.ENOSPC)
            await asyncio.sleep(10)
            kafka.disk.refuse(None)
            await asyncio.sleep(10)
            assert len(members[1].owned) == 4

        world.run(run())
