"""Flipped bytes, read errors and lost unflushed records, seen by clients."""

import time
from collections.abc import Iterator
from typing import Any

import pytest

from pykbroker import AsyncBroker, Broker, Topic
from pykbroker.testing.active_fault import FaultMatchedNothing
from pykbroker.testing.inspection import NotReadable


@pytest.fixture
def kafka() -> Iterator[Broker]:
    topics = {"trucks": 1, "ships": 1, "flushed": Topic(config={"flush.messages": 1})}
    with Broker(topics) as broker:
        yield broker


def texts(kafka: Broker, topic: str = "trucks") -> list[str]:
    return [it.text for it in kafka.records(topic)]


def write(kafka: Broker, topic: str, *values: str) -> None:
    """Writes each value in its own batch."""
    for value in values:
        kafka.produce(topic, [value])


def librdkafka_reader(kafka: Broker, topic: str = "trucks", offset: int = 0) -> Any:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap,
            "group.id": "of nobody",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "log_level": 0,
            "fetch.error.backoff.ms": 10,
        }
    )
    consumer.assign([TopicPartition(topic, 0, offset)])
    return consumer


def fetch_error(kafka: Broker, topic: str = "trucks", offset: int = 0) -> str | None:
    """The error of a Fetch from this offset, from the broker's timeline."""
    consumer = librdkafka_reader(kafka, topic, offset)
    try:
        for _ in range(600):
            consumer.poll(0.1)
            for line in kafka.story().splitlines():
                if "Fetch" in line and f"{topic}-0 " in line:
                    return line.rpartition(" ")[2]
    finally:
        consumer.close()
    return None


# --- a flipped byte


def test_readers_get_corrupt_message_for_a_damaged_batch_and_earlier_records(
    kafka: Broker,
) -> None:
    write(kafka, "trucks", "a", "b", "c")
    with kafka.faults.flip_byte("trucks", offset=1) as fault:
        consumer = librdkafka_reader(kafka)
        try:
            assert consumer.consume(1, timeout=60)[0].value() == b"a"
        finally:
            consumer.close()
        assert fetch_error(kafka, offset=1) == "CORRUPT_MESSAGE"
        with pytest.raises(NotReadable, match="trucks-0 at offset 1: CORRUPT_MESSAGE"):
            kafka.records("trucks")
    assert fault.hits == 1
    assert texts(kafka) == ["a", "b", "c"]


def test_records_after_a_damaged_batch_are_served(kafka: Broker) -> None:
    write(kafka, "trucks", "a", "b", "c")
    with kafka.faults.flip_byte("trucks", offset=1):
        consumer = librdkafka_reader(kafka, offset=2)
        try:
            assert consumer.consume(1, timeout=60)[0].value() == b"c"
        finally:
            consumer.close()


def test_a_producer_appends_after_a_damaged_batch(kafka: Broker) -> None:
    from kafka import KafkaProducer

    write(kafka, "trucks", "a")
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap)
    with kafka.faults.flip_byte("trucks"):
        assert producer.send("trucks", b"b").get(60).offset == 1
    producer.close()
    assert texts(kafka) == ["a", "b"]


def test_damage_is_found_after_a_clean_restart(kafka: Broker) -> None:
    write(kafka, "trucks", "a", "b")
    kafka.faults.flip_byte("trucks", offset=1)
    kafka.restart()
    assert fetch_error(kafka, offset=1) == "CORRUPT_MESSAGE"


def test_recovery_truncates_the_log_at_unflushed_damage(kafka: Broker) -> None:
    write(kafka, "trucks", "a", "b", "c")
    with kafka.faults.flip_byte("trucks", offset=1):
        kafka.crash()
        assert texts(kafka) == ["a"]
        write(kafka, "trucks", "another b")
    assert texts(kafka) == ["a", "another b"]


def test_damage_does_not_affect_copies(kafka: Broker) -> None:
    write(kafka, "trucks", "a")
    with kafka.fork() as other, kafka.faults.flip_byte("trucks"):
        assert texts(other) == ["a"]
        with pytest.raises(NotReadable):
            kafka.records("trucks")


def test_reset_removes_damage(kafka: Broker) -> None:
    write(kafka, "trucks", "a")
    kafka.faults.flip_byte("trucks")
    kafka.reset()
    write(kafka, "trucks", "b")
    assert texts(kafka) == ["b"]


@pytest.mark.parametrize(("topic", "offset"), [("trucks", 1), ("ships", 0), ("cars", 0)])
def test_flip_byte_without_a_record_raises(kafka: Broker, topic: str, offset: int) -> None:
    write(kafka, "trucks", "a")
    with pytest.raises(FaultMatchedNothing, match=f"flip_byte: .*{topic}-0"):
        kafka.faults.flip_byte(topic, offset=offset)


async def test_flip_byte_works_on_an_async_broker() -> None:
    async with AsyncBroker(["trucks"]) as kafka:
        kafka.produce("trucks", ["a"])
        with kafka.faults.flip_byte("trucks"), pytest.raises(NotReadable):
            kafka.records("trucks")
        assert [it.text for it in kafka.records("trucks")] == ["a"]


# --- a disk that cannot be read


def test_readers_get_kafka_storage_error_until_the_read_error_ends(kafka: Broker) -> None:
    write(kafka, "trucks", "a")
    consumer = librdkafka_reader(kafka)
    with kafka.faults.disk_read_error(topic="trucks") as fault:
        assert fetch_error(kafka) == "KAFKA_STORAGE_ERROR"
        write(kafka, "trucks", "b")
        assert texts(kafka, "ships") == []
    try:
        assert [it.value() for it in consumer.consume(2, timeout=60)] == [b"a", b"b"]
    finally:
        consumer.close()
    assert fault.hits > 0


def test_a_log_that_is_unreadable_at_the_start_is_opened_later(kafka: Broker) -> None:
    write(kafka, "trucks", "a")
    with kafka.outage():
        fault = kafka.faults.disk_read_error(topic="trucks", times=1)
    assert fault.hits == 1
    kafka.clock.advance(seconds=2)
    assert texts(kafka) == ["a"]


def test_list_offsets_by_timestamp_fails_during_a_read_error(kafka: Broker) -> None:
    from confluent_kafka import KafkaError, KafkaException, TopicPartition

    write(kafka, "trucks", "a", "b")
    consumer = librdkafka_reader(kafka)
    try:
        with kafka.faults.disk_read_error(topic="trucks"):
            try:
                (found,) = consumer.offsets_for_times([TopicPartition("trucks", 0, 1)], timeout=60)
                error = found.error
            except KafkaException as failure:
                error = failure.args[0]
        assert error.code() in {KafkaError.KAFKA_STORAGE_ERROR, KafkaError._TIMED_OUT}
        assert "trucks-0 KAFKA_STORAGE_ERROR" in kafka.story()
        (found,) = consumer.offsets_for_times([TopicPartition("trucks", 0, 1)], timeout=60)
        assert found.offset == 0
    finally:
        consumer.close()


def test_a_waiting_fetch_does_not_fail_the_producer_during_a_read_error(
    kafka: Broker,
) -> None:
    from kafka import KafkaProducer

    consumer = librdkafka_reader(kafka)
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap, retries=0, acks=1)
    try:
        assert consumer.poll(0.2) is None
        with kafka.faults.disk_read_error(topic="trucks") as fault:
            assert producer.send("trucks", b"a").get(60).offset == 0
            while not fault.hits:  # the reader asks in a thread of its own
                assert consumer.poll(0.01) is None
        assert consumer.consume(1, timeout=60)[0].value() == b"a"
    finally:
        producer.close()
        consumer.close()


def test_groups_are_loaded_when_the_read_error_ends(kafka: Broker) -> None:
    from confluent_kafka import Consumer, TopicPartition

    settings = {"bootstrap.servers": kafka.bootstrap, "group.id": "readers", "log_level": 0}
    consumer = Consumer(settings)
    place = TopicPartition("trucks", 0, 1)
    consumer.commit(offsets=[place], asynchronous=False)
    with kafka.faults.disk_read_error(topic="__consumer_offsets", times=1) as fault:
        kafka.restart()
        found = committed(consumer)
    consumer.close()
    assert fault.hits == 1
    assert found.offset == 1


def committed(consumer: Any) -> Any:
    """The committed offset, once the coordinator is loaded."""
    from confluent_kafka import KafkaException, TopicPartition

    deadline = time.monotonic() + 60
    while True:
        try:
            (found,) = consumer.committed([TopicPartition("trucks", 0)], timeout=10)
        except KafkaException:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        else:
            return found


# --- a crash that takes what was not flushed


def test_torn_tail_truncates_the_last_batch(kafka: Broker) -> None:
    write(kafka, "trucks", "a", "b", "c")
    write(kafka, "ships", "a", "b")
    with kafka.faults.torn_tail(topic="trucks") as fault:
        kafka.crash()
    assert fault.hits == 1
    assert texts(kafka) == ["a", "b"]
    assert texts(kafka, "ships") == ["a", "b"]
    write(kafka, "trucks", "d")
    assert texts(kafka) == ["a", "b", "d"]


def test_lose_unflushed_loses_only_unflushed_records(kafka: Broker) -> None:
    write(kafka, "trucks", "a", "b")
    write(kafka, "flushed", "a", "b")
    with kafka.faults.lose_unflushed() as fault:
        kafka.crash()
    assert fault.hits == 1
    assert texts(kafka) == []
    assert texts(kafka, "flushed") == ["a", "b"]


def test_torn_tail_does_not_apply_to_flushed_records(kafka: Broker) -> None:
    write(kafka, "flushed", "a", "b")
    with (
        pytest.raises(FaultMatchedNothing, match="torn log tail at a crash"),
        kafka.faults.torn_tail(topic="flushed"),
    ):
        kafka.crash()
    assert texts(kafka, "flushed") == ["a", "b"]


def test_a_log_with_lost_pages_recovers_to_a_prefix(
    kafka: Broker,
) -> None:
    for seed in range(8):
        kafka.reset()
        values = [f"{number} " + "x" * 500 for number in range(60)]
        write(kafka, "trucks", *values)
        with kafka.faults.lose_unflushed(topic="trucks", seed=seed):
            kafka.crash()
        left = texts(kafka)
        assert left == values[: len(left)]
        assert len(left) < len(values)
        write(kafka, "trucks", "after")
        assert texts(kafka) == [*left, "after"]


def test_the_same_seed_loses_the_same_pages(kafka: Broker) -> None:
    found = []
    for _ in range(2):
        kafka.reset()
        write(kafka, "trucks", *["x" * 500] * 60)
        with kafka.faults.lose_unflushed(topic="trucks", seed=1):
            kafka.crash()
        found.append(len(kafka.records("trucks")))
    assert found[0] == found[1]


def test_an_idempotent_producer_continues_after_records_were_lost(kafka: Broker) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": kafka.bootstrap, "log_level": 0})
    producer.produce("trucks", b"lost")
    assert producer.flush(60) == 0
    with kafka.faults.lose_unflushed(topic="trucks"):
        kafka.crash()
    producer.produce("trucks", b"kept")
    assert producer.flush(60) == 0
    assert texts(kafka) == ["kept"]


def test_a_consumer_beyond_the_log_end_gets_offset_out_of_range(kafka: Broker) -> None:
    from confluent_kafka import KafkaError

    write(kafka, "trucks", "a", "b")
    consumer = librdkafka_reader(kafka, offset=2)
    try:
        assert consumer.poll(0.1) is None
        with kafka.faults.lose_unflushed(topic="trucks"):
            kafka.crash()
        errors = []
        for _ in range(600):
            message = consumer.poll(0.1)
            if message is not None and message.error() is not None:
                errors.append(message.error().code())
                if errors[-1] == KafkaError._AUTO_OFFSET_RESET:
                    break
        assert KafkaError._AUTO_OFFSET_RESET in errors
    finally:
        consumer.close()


def test_a_clean_stop_loses_nothing(kafka: Broker) -> None:
    write(kafka, "trucks", "a")
    with pytest.raises(FaultMatchedNothing), kafka.faults.lose_unflushed(topic="trucks"):
        kafka.restart()
    assert texts(kafka) == ["a"]
