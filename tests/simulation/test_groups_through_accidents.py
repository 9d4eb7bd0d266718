"""Groups in worlds where things go wrong: nothing is left out, and nothing is worked on by two."""

from __future__ import annotations

import asyncio
import errno

import pytest

from pykbroker.testing.history import count_deliveries, expect_sound
from pykbroker.testing.simulation import SOFT, Simulation, seeds
from tests.simulation.next_generation import Member, Ownership
from tests.simulation.plays import BROKER, play_members
from tests.simulation.relays import SINK, origin_of, relay
from tests.simulation.stories import PARTITIONS, TOPIC, Cast, read_all, read_in_group, until, write

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("seed", seeds(5))
def test_a_group_works_on_every_record(seed: int) -> None:
    """Members are killed and start again; whoever commits after its work leaves nothing out."""
    with Simulation(seed) as world:
        kafka = world.broker(topics={TOPIC: PARTITIONS})
        cast, done = Cast(kafka, world.chance_of("clients")), set[str]()

        async def story() -> None:
            async with world.chaos(*SOFT, every_seconds=3), world.chaos(every_seconds=4):
                for number in range(3):
                    world.start(f"r{number}", read_in_group(cast, "readers", done))
                writing = [world.start(f"w{it}", write(cast, 25)) for it in range(2)]
                for _ in range(3):
                    await asyncio.sleep(cast.chance.uniform(1, 8))
                    number = cast.chance.randrange(3)
                    await world.kill(f"r{number}")
                    world.start(f"r{number}", read_in_group(cast, "readers", done))
                await asyncio.gather(*writing)
            everything = set(await read_all(cast))
            await until(lambda: done == everything)
            expect_sound(cast.history)

        world.run(story())


@pytest.mark.parametrize("seed", seeds(5))
def test_what_goes_in_comes_out_exactly_once(seed: int) -> None:
    """Relays are killed, and fenced by others that take their place while they are cut off."""
    with Simulation(seed) as world:
        kafka = world.broker(topics={TOPIC: PARTITIONS, SINK: PARTITIONS})
        cast = Cast(kafka, world.chance_of("clients"))
        world.network.delivers_after_close = False  # see test_known_holes.py

        async def story() -> None:
            async with world.chaos(*SOFT, every_seconds=3), world.chaos(every_seconds=4):
                for number in range(PARTITIONS):
                    world.start(f"relay-{number}", relay(cast, number))
                writing = [world.start(f"w{it}", write(cast, 20)) for it in range(2)]
                for turn in range(4):
                    await asyncio.sleep(cast.chance.uniform(1, 6))
                    number = cast.chance.randrange(PARTITIONS)
                    if cast.chance.random() < 0.5:
                        await world.kill(f"relay-{number}")
                    world.start(f"relay-{number}-{turn}", relay(cast, number))
                await asyncio.gather(*writing)
            await read_all(cast)
            await until(lambda: len(kafka.records(SINK)) >= len(kafka.records(TOPIC)))
            await read_all(cast, topic=SINK)
            found = count_deliveries(cast.history, source=TOPIC, sink=SINK, origin=origin_of)
            assert found.are_exactly_once, found

        world.run(story())


@pytest.mark.parametrize("seed", seeds(5))
def test_two_members_of_the_next_generation_never_own_one_partition(seed: int) -> None:
    play_members(seed)


def test_a_session_that_ends_while_the_disk_is_full_ends_when_there_is_room() -> None:
    """Or the member stays for ever, and nobody else is given its partitions."""
    with Simulation(1) as world:
        kafka = world.broker(topics={TOPIC: 4}, config=BROKER)
        ownership = Ownership(lambda: world.seconds)
        members = [Member(f"member-{number}", TOPIC, ownership) for number in range(2)]

        async def story() -> None:
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

        world.run(story())
