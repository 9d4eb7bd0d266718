"""The same seed gives the same trace, also in processes with another hash seed."""

import asyncio
import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from pykbroker.testing.simulation import Kind, SimulatedNode, Simulation, Trace

pytestmark = pytest.mark.slow

RECORDS = 12


async def write(kafka: SimulatedNode) -> None:
    async with AIOKafkaProducer(
        bootstrap_servers=kafka.bootstrap, enable_idempotence=True
    ) as producer:
        for number in range(RECORDS):
            await producer.send_and_wait(f"trucks-{number % 3}", b"%d" % number)
            await asyncio.sleep(0.5)


async def read(kafka: SimulatedNode) -> None:
    async with AIOKafkaConsumer(
        "trucks-0",
        "trucks-1",
        "trucks-2",
        bootstrap_servers=kafka.bootstrap,
        group_id="readers",
        auto_offset_reset="earliest",
    ) as consumer:
        while any(consumer.highwater(it) is None for it in consumer.assignment()):
            await consumer.getmany(timeout_ms=500)


def trace_of(seed: int) -> Trace:
    with Simulation(seed) as world:
        kafka = world.broker(topics={f"trucks-{number}": 2 for number in range(3)})

        async def run() -> None:
            async with world.chaos(*Kind, every_seconds=1):
                await asyncio.gather(
                    world.start("writer", write(kafka)), world.start("reader", read(kafka))
                )

        world.run(run())
        return world.trace


def fingerprint(seed: int) -> str:
    return hashlib.sha256("\n".join(map(str, trace_of(seed))).encode()).hexdigest()


def test_the_same_seed_gives_the_same_trace() -> None:
    assert trace_of(7) == trace_of(7)


def test_another_seed_gives_another_trace() -> None:
    assert trace_of(7) != trace_of(8)


def test_the_trace_does_not_depend_on_the_hash_seed() -> None:
    def in_a_process(hash_seed: str) -> str:
        done = subprocess.run(
            [sys.executable, __file__, "11"],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            cwd=Path(__file__).parents[2],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert in_a_process("1") == in_a_process("2") == in_a_process("3")


if __name__ == "__main__":
    print(fingerprint(int(sys.argv[1])))
