"""Complete simulation runs for a seed. They raise an AssertionError if a guarantee is violated."""

from __future__ import annotations

import asyncio

from pykbroker.testing.history import Isolation, expect_sound
from pykbroker.testing.simulation import SOFT, Kind, Simulation
from tests.simulation.aiokafka_clients import PARTITIONS, TOPIC, Clients, read_all, write
from tests.simulation.consumer_group_members import Member, Ownership

BROKER = {
    "group.consumer.session.timeout.ms": 5_000,
    "group.consumer.min.session.timeout.ms": 1_000,
    "group.consumer.heartbeat.interval.ms": 500,
    "group.consumer.min.heartbeat.interval.ms": 100,
}

TO_THE_END_SECONDS = 120
FLUSHES_EACH_WRITE = {"log.flush.interval.messages": 1}
SMALL_SEGMENTS = {"log.roll.ms": 2_000, "log.index.interval.bytes": 512}


def play_writers(seed: int) -> None:
    """Idempotent producers with failures: acknowledged records are stored once and in order."""
    with Simulation(seed) as world:
        kafka = world.broker(topics={TOPIC: PARTITIONS})
        clients = Clients(kafka, world.chance_of("clients"))

        async def run() -> None:
            async with world.chaos(*SOFT, every_seconds=2), world.chaos(every_seconds=2):
                await asyncio.gather(
                    *(world.start(f"w{it}", write(clients, 30)) for it in range(3))
                )
            await read_all(clients)
            expect_sound(clients.history)

        world.run(run())


def play_members(seed: int) -> None:
    """Members of a consumer group (KIP-848): two members never own the same partition."""
    with Simulation(seed) as world:
        kafka = world.broker(topics={TOPIC: 12}, config=BROKER)
        ownership = Ownership(lambda: world.seconds)
        chance = world.chance_of("clients")
        alive: dict[str, Member] = {}

        def join(number: int) -> None:
            name = f"member-{number}"
            alive[name] = Member(name, TOPIC, ownership)
            world.start(name, alive[name].live(kafka))

        async def run() -> None:
            async with world.chaos(*SOFT, every_seconds=3), world.chaos(every_seconds=5):
                for number in range(12):
                    join(number)
                    await asyncio.sleep(chance.uniform(0, 5))
                    if chance.random() < 0.6 and len(alive) > 1:
                        gone = chance.choice(list(alive))
                        del alive[gone]
                        await world.kill(gone)
            await asyncio.sleep(60)
            owned = [place for member in alive.values() for place in sorted(member.owned)]
            assert len(owned) == len(set(owned)) == 12, owned

        world.run(run())


def play_power_failures_and_readers(seed: int) -> None:
    """After each power loss, a reader reaches the log end before further records are written."""
    with Simulation(seed) as world:
        kafka = world.broker(topics={TOPIC: PARTITIONS}, config=SMALL_SEGMENTS)
        clients = Clients(kafka, world.chance_of("clients"))

        async def run() -> None:
            for _ in range(3):
                writing = [world.start(f"w{it}", write(clients, 15)) for it in range(3)]
                await asyncio.sleep(clients.chance.uniform(2, 12))
                await world.crash(kafka, power=True)
                await asyncio.gather(*(world.kill(f"w{it}") for it in range(len(writing))))
                await world.restart(kafka)
                try:
                    async with asyncio.timeout(TO_THE_END_SECONDS):
                        await read_all(clients, Isolation.READ_UNCOMMITTED)
                except TimeoutError:
                    raise AssertionError("a reader waits at the end of a log") from None

        world.run(run())


def play_crashes(seed: int, *kinds: Kind, config: dict[str, int]) -> Clients:
    """Writers with failures, then a reader of all records."""
    with Simulation(seed) as world:
        kafka = world.broker(topics={TOPIC: PARTITIONS}, config={**SMALL_SEGMENTS, **config})
        clients = Clients(kafka, world.chance_of("clients"))

        async def run() -> None:
            async with world.chaos(*kinds, every_seconds=3):
                await asyncio.gather(
                    *(world.start(f"w{it}", write(clients, 25)) for it in range(3))
                )
            await read_all(clients)

        world.run(run())
        return clients
