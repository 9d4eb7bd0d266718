"""Advancing and freezing the clock: deadlines and periodic work of the broker."""

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import pytest

from pykbroker import AsyncBroker, Broker, Row, Topic
from pykbroker.testing.movable_clock import MovableClock, always

DAY_MS = 24 * 3600 * 1000


@pytest.fixture
def kafka() -> Iterator[Broker]:
    topics = {
        "trucks": 1,
        "places": Topic(config={"cleanup.policy": "compact", "segment.bytes": 1_048_576}),
    }
    with Broker(topics) as broker:
        yield broker


def test_advance_moves_the_clock(kafka: Broker) -> None:
    before = kafka.clock.now
    kafka.clock.advance(days=1, hours=2)
    assert (kafka.clock.now - before).total_seconds() == pytest.approx(26 * 3600, abs=5)
    kafka.produce("trucks", ["tomorrow"])
    (record,) = kafka.records("trucks")
    assert record.timestamp_ms == pytest.approx(time.time() * 1000 + 26 * 3600 * 1000, abs=5000)
    with pytest.raises(ValueError, match="cannot go back"):
        kafka.clock.advance(days=-1)


def test_retention_deletes_records_after_seven_days(kafka: Broker) -> None:
    kafka.produce("trucks", ["old"])
    kafka.clock.advance(days=6)
    assert len(kafka.records("trucks")) == 1
    kafka.clock.advance(days=2)
    assert kafka.records("trucks") == []


def test_compaction_runs_when_the_clock_advances(kafka: Broker) -> None:
    rows = [Row(bytes(1000), key=f"truck-{number % 3}") for number in range(1500)]
    kafka.produce("places", rows)
    kafka.clock.advance(minutes=1)
    keys = [it.key for it in kafka.records("places")]
    assert len(keys) < len(rows)
    assert set(keys) == {b"truck-0", b"truck-1", b"truck-2"}


def test_a_member_without_heartbeats_is_removed_from_its_group(kafka: Broker) -> None:
    from confluent_kafka import Consumer

    consumer = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap,
            "group.id": "readers",
            "auto.offset.reset": "earliest",
            "session.timeout.ms": 45_000,
            "heartbeat.interval.ms": 40_000,
        }
    )
    consumer.subscribe(["trucks"])
    kafka.produce("trucks", ["a"])
    try:
        assert consumer.poll(10) is not None
        kafka.clock.advance(seconds=46)
        story = kafka.story()
    finally:
        consumer.close()
    assert "readers rebalances after generation 1: session of rdkafka-" in story
    assert "readers is empty at generation 2" in story


def test_offsets_of_an_empty_group_expire(kafka: Broker) -> None:
    from kafka import KafkaConsumer

    kafka.produce("trucks", ["a"])
    consumer = KafkaConsumer(
        "trucks",
        bootstrap_servers=kafka.bootstrap,
        group_id="readers",
        auto_offset_reset="earliest",
    )
    assert consumer.poll(5000)
    consumer.close()
    kafka.clock.advance(days=6)
    assert kafka.offsets("readers")
    kafka.clock.advance(days=2)
    assert kafka.offsets("readers") == {}


def test_an_open_transaction_is_aborted_after_its_timeout(kafka: Broker) -> None:
    from confluent_kafka import Producer

    settings: dict[str, Any] = {
        "bootstrap.servers": kafka.bootstrap,
        "transactional.id": "payments",
        "transaction.timeout.ms": 60_000,
    }
    producer = Producer(settings)
    producer.init_transactions(10)
    producer.begin_transaction()
    producer.produce("trucks", b"never")
    producer.flush(10)
    kafka.produce("trucks", ["behind it"])
    assert kafka.records("trucks") == []
    assert len(kafka.records("trucks", committed_only=False)) == 2
    kafka.clock.advance(minutes=2)
    assert [it.text for it in kafka.wait_for("trucks", count=1)] == ["behind it"]


async def test_periodic_work_runs_once_per_advance() -> None:
    clock, done = MovableClock(), list[float]()

    def do_round() -> None:
        done.append(clock.monotonic())
        clock.call_later(1, do_round, may_wait=always)

    do_round()
    await clock.advance(seconds=1000)
    assert done == [done[0], pytest.approx(done[0] + 1000, abs=0.5)]


async def test_periodic_work_that_must_not_wait_runs_at_its_time() -> None:
    clock, waiting, done = MovableClock(), [False], list[float]()
    began = clock.monotonic()
    clock.call_later(20, lambda: done.append(clock.monotonic()), may_wait=lambda: not waiting[0])
    clock.call_later(10, lambda: waiting.__setitem__(0, True))
    await clock.advance(seconds=1000)
    assert done == [pytest.approx(began + 20, abs=0.5)]


def test_an_idle_coordinator_does_not_stop_the_clock(
    kafka: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    from confluent_kafka import Consumer, Producer

    producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": "payments"})
    producer.init_transactions(10)
    producer.begin_transaction()
    producer.produce("trucks", b"a")
    producer.commit_transaction(10)
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": "readers"})
    consumer.subscribe(["trucks"])
    consumer.poll(5)
    consumer.close()
    moments, stand_at = [], MovableClock._stand_at
    monkeypatch.setattr(
        MovableClock,
        "_stand_at",
        lambda self, it: (moments.append(it), stand_at(self, it)),  # type: ignore[func-returns-value]  # used for both
    )
    kafka.clock.advance(days=1)
    assert len(moments) < 10


def test_nothing_becomes_due_while_the_clock_is_frozen(kafka: Broker) -> None:
    kafka.clock.freeze()
    before = kafka.clock.now_ms()
    time.sleep(0.02)
    assert kafka.clock.now_ms() == before
    kafka.clock.advance(milliseconds=5)
    assert kafka.clock.now_ms() == before + 5
    kafka.clock.run()
    time.sleep(0.02)
    assert before + 5 < kafka.clock.now_ms() < before + 5000


def test_members_get_assignments_while_the_clock_is_frozen(kafka: Broker) -> None:
    from confluent_kafka import Consumer

    kafka.produce("trucks", ["here"])
    kafka.clock.freeze()
    consumer = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap,
            "group.id": "dashboards",
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe(["trucks"])
    record = consumer.poll(20)
    consumer.close()
    assert record is not None
    assert record.value() == b"here"


def test_reset_returns_to_the_current_time(kafka: Broker) -> None:
    kafka.clock.advance(days=8)
    kafka.clock.freeze()
    kafka.reset()
    assert kafka.clock.now_ms() == pytest.approx(time.time() * 1000, abs=5000)
    kafka.produce("trucks", ["now"])
    kafka.clock.advance(days=6)
    assert len(kafka.records("trucks")) == 1


def test_a_fork_has_the_same_time(kafka: Broker) -> None:
    kafka.clock.advance(days=8)
    with kafka.fork() as other:
        assert other.clock.now_ms() - kafka.clock.now_ms() < DAY_MS


def test_a_fork_of_a_frozen_clock_is_frozen(kafka: Broker) -> None:
    kafka.clock.freeze()
    kafka.clock.skew(hours=1)
    with kafka.fork() as other:
        assert other.clock.now_ms() == kafka.clock.now_ms()
        kafka.clock.run()
        assert other.clock.now_ms() == other.clock.now_ms()
        other.produce("trucks", ["there"])
        assert other.records("trucks")[0].timestamp_ms == other.clock.now_ms()


async def test_the_clock_of_an_async_broker_advances() -> None:
    async with AsyncBroker(["trucks"]) as kafka:
        kafka.produce("trucks", ["old"])
        await kafka.clock.advance(days=8)
        assert kafka.records("trucks") == []


def test_the_clock_advances_after_each_start() -> None:
    kafka = Broker(["trucks"])
    for _ in range(2):
        with kafka:
            kafka.produce("trucks", ["old"])
            kafka.clock.advance(days=8)
            assert kafka.records("trucks") == []


async def test_advance_ignores_a_cancelled_sleep() -> None:
    clock = MovableClock()
    sleeper = asyncio.create_task(clock.sleep(10))
    await asyncio.sleep(0)
    sleeper.cancel()
    await clock.advance(seconds=11)
    with pytest.raises(asyncio.CancelledError):
        await sleeper
