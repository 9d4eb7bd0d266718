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


def told(seed: int) -> Trace:
    with Simulation(seed) as world:
        kafka = world.broker(topics={f"trucks-{number}": 2 for number in range(3)})

        async def story() -> None:
            async with world.chaos(*Kind, every_seconds=1):
                await asyncio.gather(
                    world.start("writer", write(kafka)), world.start("reader", read(kafka))
                )

        world.run(story())
        return world.trace


def fingerprint(seed: int) -> str:
    return hashlib.sha256("\n".join(map(str, told(seed))).encode()).hexdigest()


def test_the_same_seed_gives_the_same_story() -> None:
    assert told(7) == told(7)


def test_another_seed_gives_another_story() -> None:
    assert told(7) != told(8)


def test_the_order_in_which_a_process_hashes_does_not_matter() -> None:
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
