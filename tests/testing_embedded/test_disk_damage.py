"""The disk under a broker damages, loses or withholds what it was given, and clients meet it."""

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
    """Each in a batch of its own."""
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
    """What the broker answers to a Fetch from there, told by its timeline."""
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


def test_a_damaged_batch_is_refused_to_readers_and_what_is_before_it_is_served(
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


def test_who_reads_on_behind_a_damaged_batch_gets_what_is_there(kafka: Broker) -> None:
    write(kafka, "trucks", "a", "b", "c")
    with kafka.faults.flip_byte("trucks", offset=1):
        consumer = librdkafka_reader(kafka, offset=2)
        try:
            assert consumer.consume(1, timeout=60)[0].value() == b"c"
        finally:
            consumer.close()


def test_a_producer_writes_on_behind_a_damaged_batch(kafka: Broker) -> None:
    from kafka import KafkaProducer

    write(kafka, "trucks", "a")
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap)
    with kafka.faults.flip_byte("trucks"):
        assert producer.send("trucks", b"b").get(60).offset == 1
    producer.close()
    assert texts(kafka) == ["a", "b"]


def test_damage_is_found_after_a_clean_start_as_well(kafka: Broker) -> None:
    write(kafka, "trucks", "a", "b")
    kafka.faults.flip_byte("trucks", offset=1)
    kafka.restart()
    assert fetch_error(kafka, offset=1) == "CORRUPT_MESSAGE"


def test_a_crash_cuts_the_log_at_damage_that_was_not_flushed(kafka: Broker) -> None:
    write(kafka, "trucks", "a", "b", "c")
    with kafka.faults.flip_byte("trucks", offset=1):
        kafka.crash()
        assert texts(kafka) == ["a"]
        write(kafka, "trucks", "another b")
    assert texts(kafka) == ["a", "another b"]


def test_a_copy_is_not_damaged_with_its_original(kafka: Broker) -> None:
    write(kafka, "trucks", "a")
    with kafka.fork() as other, kafka.faults.flip_byte("trucks"):
        assert texts(other) == ["a"]
        with pytest.raises(NotReadable):
            kafka.records("trucks")


def test_a_reset_mends_what_is_damaged(kafka: Broker) -> None:
    write(kafka, "trucks", "a")
    kafka.faults.flip_byte("trucks")
    kafka.reset()
    write(kafka, "trucks", "b")
    assert texts(kafka) == ["b"]


@pytest.mark.parametrize(("topic", "offset"), [("trucks", 1), ("ships", 0), ("cars", 0)])
def test_what_is_not_there_cannot_be_damaged(kafka: Broker, topic: str, offset: int) -> None:
    write(kafka, "trucks", "a")
    with pytest.raises(FaultMatchedNothing, match=f"flip_byte: .*{topic}-0"):
        kafka.faults.flip_byte(topic, offset=offset)


async def test_a_byte_is_flipped_in_the_callers_loop_as_well() -> None:
    async with AsyncBroker(["trucks"]) as kafka:
        kafka.produce("trucks", ["a"])
        with kafka.faults.flip_byte("trucks"), pytest.raises(NotReadable):
            kafka.records("trucks")
        assert [it.text for it in kafka.records("trucks")] == ["a"]


# --- a disk that cannot be read


def test_a_disk_that_cannot_be_read_is_told_to_readers_until_it_can(kafka: Broker) -> None:
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


def test_a_log_that_cannot_be_read_at_a_start_comes_back_later(kafka: Broker) -> None:
    write(kafka, "trucks", "a")
    with kafka.outage():
        fault = kafka.faults.disk_read_error(topic="trucks", times=1)
    assert fault.hits == 1
    kafka.clock.advance(seconds=2)
    assert texts(kafka) == ["a"]


def test_a_time_is_not_looked_up_on_a_disk_that_cannot_be_read(kafka: Broker) -> None:
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


def test_a_reader_who_waits_does_not_fail_the_writer_on_a_disk_that_cannot_be_read(
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


def test_groups_come_back_when_the_disk_can_be_read_again(kafka: Broker) -> None:
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
    """As soon as a coordinator tells it: one that is not there yet is no answer."""
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


def test_half_of_the_last_batch_is_cut_off(kafka: Broker) -> None:
    write(kafka, "trucks", "a", "b", "c")
    write(kafka, "ships", "a", "b")
    with kafka.faults.torn_tail(topic="trucks") as fault:
        kafka.crash()
    assert fault.hits == 1
    assert texts(kafka) == ["a", "b"]
    assert texts(kafka, "ships") == ["a", "b"]
    write(kafka, "trucks", "d")
    assert texts(kafka) == ["a", "b", "d"]


def test_all_that_was_not_flushed_is_lost_and_nothing_else(kafka: Broker) -> None:
    write(kafka, "trucks", "a", "b")
    write(kafka, "flushed", "a", "b")
    with kafka.faults.lose_unflushed() as fault:
        kafka.crash()
    assert fault.hits == 1
    assert texts(kafka) == []
    assert texts(kafka, "flushed") == ["a", "b"]


def test_what_was_flushed_has_no_torn_tail(kafka: Broker) -> None:
    write(kafka, "flushed", "a", "b")
    with (
        pytest.raises(FaultMatchedNothing, match="torn log tail at a crash"),
        kafka.faults.torn_tail(topic="flushed"),
    ):
        kafka.crash()
    assert texts(kafka, "flushed") == ["a", "b"]


def test_after_some_pages_are_lost_the_log_is_a_good_beginning_of_what_it_was(
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


def test_a_seed_loses_the_same_pages_again(kafka: Broker) -> None:
    found = []
    for _ in range(2):
        kafka.reset()
        write(kafka, "trucks", *["x" * 500] * 60)
        with kafka.faults.lose_unflushed(topic="trucks", seed=1):
            kafka.crash()
        found.append(len(kafka.records("trucks")))
    assert found[0] == found[1]


def test_a_producer_goes_on_after_what_it_wrote_was_lost(kafka: Broker) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": kafka.bootstrap, "log_level": 0})
    producer.produce("trucks", b"lost")
    assert producer.flush(60) == 0
    with kafka.faults.lose_unflushed(topic="trucks"):
        kafka.crash()
    producer.produce("trucks", b"kept")
    assert producer.flush(60) == 0
    assert texts(kafka) == ["kept"]


def test_a_reader_is_told_that_its_place_is_gone(kafka: Broker) -> None:
    from confluent_kafka import KafkaError

    write(kafka, "trucks", "a", "b")
    consumer = librdkafka_reader(kafka, offset=2)
    try:
        assert consumer.poll(0.1) is None
        with kafka.faults.lose_unflushed(topic="trucks"):
            kafka.crash()
        told = []
        for _ in range(600):
            message = consumer.poll(0.1)
            if message is not None and message.error() is not None:
                told.append(message.error().code())
                if told[-1] == KafkaError._AUTO_OFFSET_RESET:
                    break
        assert KafkaError._AUTO_OFFSET_RESET in told
    finally:
        consumer.close()


def test_a_clean_stop_loses_nothing(kafka: Broker) -> None:
    write(kafka, "trucks", "a")
    with pytest.raises(FaultMatchedNothing), kafka.faults.lose_unflushed(topic="trucks"):
        kafka.restart()
    assert texts(kafka) == ["a"]
