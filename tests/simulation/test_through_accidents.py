"""Clients and broker in worlds where things go wrong, each decided by its seed.

`make soak SEEDS=1000` plays many more of them; SIMULATION_SEED plays one again.
"""

from __future__ import annotations

import asyncio

import pytest

from pykbroker.testing.history import Isolation, expect_sound
from pykbroker.testing.simulation import SOFT, Simulation, seeds
from tests.simulation.plays import play_writers
from tests.simulation.stories import PARTITIONS, TOPIC, Cast, read_all, write_transactions


@pytest.mark.parametrize("seed", seeds(6))
def test_what_idempotent_producers_were_told_is_true(seed: int) -> None:
    play_writers(seed)


@pytest.mark.parametrize("seed", seeds(6))
def test_transactions_are_whole_or_not_there(seed: int) -> None:
    with Simulation(seed) as world:
        kafka = world.broker(topics={TOPIC: PARTITIONS})
        cast = Cast(kafka, world.chance_of("clients"))
        world.network.delivers_after_close = False  # see test_known_holes.py

        async def story() -> None:
            async with world.chaos(*SOFT, every_seconds=2), world.chaos(every_seconds=2):
                await asyncio.gather(
                    *(world.start(f"w{it}", write_transactions(cast, f"t{it}", 15)) for it in "ab")
                )
            await asyncio.sleep(60)  # what nobody ended is aborted by then
            await read_all(cast)
            await read_all(cast, Isolation.READ_UNCOMMITTED)
            expect_sound(cast.history)

        world.run(story())
