"""What the protocol itself cannot keep, whoever's broker it is."""

from __future__ import annotations

import asyncio

import pytest

from pykbroker.testing.history import Anomaly, check
from pykbroker.testing.simulation import Simulation
from tests.simulation.stories import PARTITIONS, TOPIC, Cast, read_all, write_transactions

pytestmark = pytest.mark.slow

SEEDS = range(40)


def anomalies(seed: int, *, delivers_after_close: bool) -> set[Anomaly]:
    """A producer is cut off again and again for longer than it waits for an answer."""
    with Simulation(seed) as world:
        world.network.delivers_after_close = delivers_after_close
        kafka = world.broker(topics={TOPIC: PARTITIONS})
        cast = Cast(kafka, world.chance_of("clients"))

        async def story() -> None:
            writing = world.start("writer", write_transactions(cast, "t", 12))
            while not writing.done():
                await asyncio.sleep(cast.chance.uniform(0, 2))
                world.partition("writer", kafka)
                await asyncio.sleep(6)
                world.heal()
            await asyncio.sleep(60)
            await read_all(cast)

        world.run(story())
        return {it.anomaly for it in check(cast.history)}


def test_an_end_that_comes_late_ends_the_next_transaction() -> None:
    """EndTxn before version 5 does not say which transaction is meant (KIP-890).

    A client gives it up, closes the connection, asks again on another and goes on; then the first
    one arrives. With Kafka it is the same.
    """
    found = (anomalies(seed, delivers_after_close=True) for seed in SEEDS)
    assert any(Anomaly.ABORTED_READ in it or Anomaly.PRECOMMITTED_READ in it for it in found)


def test_what_closed_connections_no_longer_deliver_harms_nobody() -> None:
    assert all(not anomalies(seed, delivers_after_close=False) for seed in SEEDS[:3])
