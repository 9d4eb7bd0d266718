"""Idempotent and transactional producers with failures.

`make soak SEEDS=1000` runs more seeds; SIMULATION_SEED repeats one.
"""

from __future__ import annotations

import asyncio

import pytest

from pykbroker.testing.history import Isolation, expect_sound
from pykbroker.testing.simulation import SOFT, Simulation, seeds
from tests.simulation.aiokafka_clients import (
    PARTITIONS,
    TOPIC,
    Clients,
    read_all,
    write_transactions,
)
from tests.simulation.scenarios import play_writers


@pytest.mark.parametrize("seed", seeds(6))
def test_acknowledged_records_of_idempotent_producers_are_stored_once(seed: int) -> None:
    play_writers(seed)


@pytest.mark.parametrize("seed", seeds(6))
def test_transactions_are_atomic(seed: int) -> None:
    with Simulation(seed) as world:
        kafka = world.broker(topics={TOPIC: PARTITIONS})
        clients = Clients(kafka, world.chance_of("clients"))
        world.network.delivers_after_close = False  # see test_protocol_limits.py

        async def run() -> None:
            async with world.chaos(*SOFT, every_seconds=2), world.chaos(every_seconds=2):
                await asyncio.gather(
                    *(
                        world.start(f"w{it}", write_transactions(clients, f"t{it}", 15))
                        for it in "ab"
                    )
                )
            await asyncio.sleep(60)  # open transactions time out
            await read_all(clients)
            await read_all(clients, Isolation.READ_UNCOMMITTED)
            expect_sound(clients.history)

        world.run(run())
