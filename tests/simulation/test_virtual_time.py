"""Retention and timeouts over days of virtual time."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from pykbroker.testing.simulation import SimulatedNode, Simulation

pytestmark = pytest.mark.slow

DAY_SECONDS = 24 * 3600
HOURLY = {"log.roll.ms": 3_600_000}


async def send(kafka: SimulatedNode, value: str, **how: object) -> None:
    async with AIOKafkaProducer(bootstrap_servers=kafka.bootstrap, **how) as producer:
        await producer.send_and_wait("trucks", value.encode())


def test_records_are_deleted_after_a_week() -> None:
    with Simulation(1) as world:
        kafka = world.broker(topics=["trucks"], config=HOURLY)

        async def run() -> None:
            for day in range(6):
                await send(kafka, f"day {day}")
                await asyncio.sleep(DAY_SECONDS)
            assert [it.text for it in kafka.records("trucks")] == [f"day {n}" for n in range(6)]
            await send(kafka, "day 6")
            await asyncio.sleep(3.5 * DAY_SECONDS)
            await send(kafka, "day 9")
            assert [it.text for it in kafka.records("trucks")] == [
                "day 3",
                "day 4",
                "day 5",
                "day 6",
                "day 9",
            ]

        world.run(run())


def test_offsets_of_an_unused_group_expire_after_a_week() -> None:
    with Simulation(1) as world:
        kafka = world.broker(topics=["trucks"])

        async def run() -> None:
            await send(kafka, "one")
            async with AIOKafkaConsumer(
                "trucks", bootstrap_servers=kafka.bootstrap, group_id="readers"
            ) as consumer:
                await consumer.commit({TopicPartition("trucks", 0): 1})
            await asyncio.sleep(6.9 * DAY_SECONDS)
            assert kafka.offsets("readers") == {("trucks", 0): 1}
            await asyncio.sleep(0.2 * DAY_SECONDS)
            assert kafka.offsets("readers") == {}

        world.run(run())


def test_a_consumer_without_records_stays_in_its_group_for_half_an_hour() -> None:
    with Simulation(1) as world:
        kafka = world.broker(topics=["trucks"])

        async def run() -> list[str]:
            async with AIOKafkaConsumer(
                "trucks",
                bootstrap_servers=kafka.bootstrap,
                group_id="readers",
                auto_offset_reset="earliest",
                fetch_max_wait_ms=30_000,
            ) as consumer:
                found = []
                for number in range(2):
                    await send(kafka, f"report {number}")
                    found.append((await consumer.getone()).value.decode())
                    with suppress(TimeoutError):
                        await asyncio.wait_for(consumer.getone(), 15 * 60)
                return found

        assert world.run(run()) == [f"report {number}" for number in range(2)]
        assert kafka.offsets("readers") == {("trucks", 0): 2}
        assert sum("forms generation" in it.text for it in world.trace) == 1


def test_an_abandoned_transaction_is_aborted_after_its_timeout() -> None:
    with Simulation(1) as world:
        kafka = world.broker(topics=["trucks"])

        async def forget() -> None:
            producer = AIOKafkaProducer(
                bootstrap_servers=kafka.bootstrap,
                transactional_id="t",
                transaction_timeout_ms=60_000,
            )
            await producer.start()
            await producer.begin_transaction()
            await producer.send_and_wait("trucks", b"never committed")
            await asyncio.Event().wait()

        async def run() -> None:
            world.start("forgetful", forget())
            await asyncio.sleep(1)
            await world.kill("forgetful")
            await send(kafka, "after it")
            assert kafka.records("trucks") == []
            await asyncio.sleep(75)
            assert [it.text for it in kafka.records("trucks")] == ["after it"]

        world.run(run())


def test_a_compacted_topic_keeps_the_latest_values() -> None:
    with Simulation(1) as world:
        kafka = world.broker(topics=["trucks"], config={**HOURLY, "log.cleanup.policy": "compact"})

        async def run() -> None:
            for day in range(4):
                async with AIOKafkaProducer(bootstrap_servers=kafka.bootstrap) as producer:
                    for truck in range(3):
                        value = b"day %d" % day
                        await producer.send_and_wait("trucks", value, key=b"truck %d" % truck)
                await asyncio.sleep(DAY_SECONDS)
            found = [(it.key, it.text) for it in kafka.records("trucks")]
            assert len(found) <= 6  # the compacted ones, and those in the active segment
            assert set(found) >= {(b"truck %d" % truck, "day 3") for truck in range(3)}

        world.run(run())


def test_all_clocks_of_a_simulation_agree() -> None:
    with Simulation(1) as world:
        kafka = world.broker(topics=["trucks"])

        async def run() -> None:
            await asyncio.sleep(DAY_SECONDS)
            await send(kafka, "a day later")
            (record,) = kafka.records("trucks")
            assert record.timestamp_ms == pytest.approx(time.time() * 1000, abs=1_000)
            assert record.timestamp_ms == pytest.approx(world.now.timestamp() * 1000, abs=1_000)

        begun = time.time()
        world.run(run())
        assert world.now - datetime(2026, 1, 1, tzinfo=UTC) == pytest.approx(
            timedelta(days=1), abs=timedelta(seconds=1)
        )
        assert time.time() - begun == pytest.approx(DAY_SECONDS, abs=1)
