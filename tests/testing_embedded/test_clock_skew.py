"""A skewed wall clock changes timestamps and ages, but no timeouts and sessions."""

import time
from collections.abc import Iterator

import pytest

from pykbroker import AsyncBroker, Broker, Row, Topic

HOUR_MS = 3600 * 1000
DAY_MS = 24 * HOUR_MS


@pytest.fixture
def kafka() -> Iterator[Broker]:
    topics = {"trucks": 1, "stamped": Topic(config={"message.timestamp.type": "LogAppendTime"})}
    with Broker(topics) as broker:
        yield broker


@pytest.mark.parametrize("hours", [-3, 5])
def test_produced_records_have_the_skewed_time(kafka: Broker, hours: int) -> None:
    from confluent_kafka import Producer

    kafka.clock.skew(hours=hours)
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    for topic in ("stamped", "trucks"):
        producer.produce(topic, b"a", timestamp=7)
    assert producer.flush(60) == 0
    (stamped,) = kafka.records("stamped")
    assert stamped.timestamp_ms == pytest.approx(time.time() * 1000 + hours * HOUR_MS, abs=60_000)
    (record,) = kafka.records("trucks")
    assert record.timestamp_ms == 7


def test_log_append_times_decrease_with_the_clock(kafka: Broker) -> None:
    kafka.produce("stamped", ["a"])
    kafka.clock.skew(hours=-1)
    kafka.produce("stamped", ["b"])
    first, second = kafka.records("stamped")
    assert second.timestamp_ms < first.timestamp_ms


def test_a_clock_skewed_forward_expires_records(kafka: Broker) -> None:
    kafka.produce("trucks", ["a"])
    kafka.clock.skew(days=8)
    kafka.clock.advance(minutes=6)  # retention is looked at every five minutes
    assert kafka.records("trucks") == []


def test_a_clock_skewed_back_keeps_old_records(kafka: Broker) -> None:
    kafka.produce("trucks", ["a"])
    kafka.clock.skew(days=-8)
    kafka.clock.advance(days=8)
    assert [it.text for it in kafka.records("trucks")] == ["a"]
    kafka.clock.skew()
    kafka.clock.advance(minutes=6)
    assert kafka.records("trucks") == []


def test_timestamp_after_max_rejects_a_producer_ahead_of_the_broker(kafka: Broker) -> None:
    from kafka import KafkaProducer
    from kafka.errors import InvalidTimestampError

    kafka.create_topics({"strict": Topic(config={"message.timestamp.after.max.ms": HOUR_MS})})
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap)
    producer.send("strict", b"a").get(60)
    kafka.clock.skew(hours=-2)
    with pytest.raises(InvalidTimestampError):
        producer.send("strict", b"b").get(60)
    producer.close()


@pytest.mark.parametrize("days", [-1, 1])
def test_a_clock_jump_does_not_end_sessions(kafka: Broker, days: int) -> None:
    from confluent_kafka import Consumer

    consumer = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap,
            "group.id": "readers",
            "auto.offset.reset": "earliest",
            "session.timeout.ms": 60_000,
            "heartbeat.interval.ms": 100,
        }
    )
    consumer.subscribe(["trucks"])
    kafka.produce("trucks", ["a"])
    try:
        assert consumer.consume(1, timeout=60)
        kafka.clock.skew(days=days)
        kafka.clock.advance(seconds=1)
        assert "session of " not in kafka.story()
        assert kafka.records("trucks")
        kafka.clock.freeze()  # or the heartbeats would keep it
        kafka.clock.advance(seconds=61)
        assert "session of " in kafka.story()
    finally:
        kafka.clock.run()
        consumer.close()


def test_transaction_timeouts_use_the_wall_clock(kafka: Broker) -> None:
    from confluent_kafka import Producer

    settings = {"bootstrap.servers": kafka.bootstrap, "transactional.id": "payments"}
    producer = Producer({**settings, "transaction.timeout.ms": 60_000})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce("trucks", b"never")
    producer.flush(60)
    kafka.produce("trucks", ["behind it"])
    kafka.clock.skew(minutes=-30)
    kafka.clock.advance(minutes=2)
    assert kafka.records("trucks") == []
    kafka.clock.skew()
    kafka.clock.advance(minutes=1)
    assert [it.text for it in kafka.wait_for("trucks", count=1, timeout_seconds=60)] == [
        "behind it"
    ]


def test_the_skew_survives_restart_and_crash(kafka: Broker) -> None:
    kafka.produce("trucks", [Row("a", timestamp_ms=kafka.clock.now_ms())])
    kafka.clock.skew(days=-400)
    for end in (Broker.restart, Broker.crash):
        end(kafka)
        kafka.produce("trucks", ["b"])
        assert kafka.clock.now_ms() == pytest.approx(time.time() * 1000 - 400 * DAY_MS, abs=60_000)
    assert [it.text for it in kafka.records("trucks")] == ["a", "b", "b"]


def test_reset_removes_the_skew(kafka: Broker) -> None:
    kafka.clock.skew(days=400)
    kafka.reset()
    assert kafka.clock.now_ms() == pytest.approx(time.time() * 1000, abs=60_000)


def test_a_fork_has_the_same_skew(kafka: Broker) -> None:
    kafka.clock.skew(days=-400)
    with kafka.fork() as other:
        assert other.clock.now_ms() == pytest.approx(kafka.clock.now_ms(), abs=60_000)


async def test_a_clock_can_be_skewed_before_the_start() -> None:
    kafka = AsyncBroker({"stamped": Topic(config={"message.timestamp.type": "LogAppendTime"})})
    kafka.clock.skew(days=-400)
    async with kafka:
        kafka.produce("stamped", ["a"])
        (record,) = kafka.records("stamped")
    assert record.timestamp_ms < time.time() * 1000 - 399 * DAY_MS
