"""Anomalies that the Kafka protocol itself permits, with any broker."""

from __future__ import annotations

import asyncio

import pytest

from pykbroker.testing.history import Anomaly, check
from pykbroker.testing.simulation import Simulation
from tests.simulation.aiokafka_clients import (
    PARTITIONS,
    TOPIC,
    Clients,
    read_all,
    write_transactions,
)

pytestmark = pytest.mark.slow

SEEDS = range(40)


def anomalies(seed: int, *, delivers_after_close: bool) -> set[Anomaly]:
    """Partitions a producer repeatedly for longer than its request timeout."""
    with Simulation(seed) as world:
        world.network.delivers_after_close = delivers_after_close
        kafka = world.broker(topics={TOPIC: PARTITIONS})
        clients = Clients(kafka, world.chance_of("clients"))

        async def run() -> None:
            writing = world.start("writer", write_transactions(clients, "t", 12))
            while not writing.done():
                await asyncio.sleep(clients.chance.uniform(0, 2))
                world.partition("writer", kafka)
                await asyncio.sleep(6)
                world.heal()
            await asyncio.sleep(60)
            await read_all(clients)

        world.run(run())
        return {it.anomaly for it in check(clients.history)}


def test_a_delayed_end_txn_ends_the_next_transaction() -> None:
    """EndTxn before version 5 does not identify the transaction (KIP-890).

    The client gives the request up, closes the connection, repeats it on another connection and
    begins the next transaction; then the first request arrives. Apache Kafka behaves the same.
    """
    found = (anomalies(seed, delivers_after_close=True) for seed in SEEDS)
    assert any(Anomaly.ABORTED_READ in it or Anomaly.PRECOMMITTED_READ in it for it in found)


def test_no_anomaly_occurs_if_closed_connections_deliver_nothing() -> None:
    assert all(not anomalies(seed, delivers_after_close=False) for seed in SEEDS[:3])
