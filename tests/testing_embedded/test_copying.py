"""A broker goes back to what it was, or goes on twice, and neither sees what the other does."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pykbroker import AsyncBroker, Broker
from pykbroker.testing.async_broker import NotRunning

MANY = 100_000
COPY_SECONDS_MAX = 0.1  # of processor time: the machine may have other work


def texts(kafka: Broker | AsyncBroker, topic: str = "trucks") -> list[str]:
    return [it.text for it in kafka.records(topic)]


@pytest.fixture
def kafka() -> Iterator[Broker]:
    with Broker(topics={"trucks": 2}) as broker:
        broker.produce("trucks", ["seed"])
        yield broker
        siblings = broker.directory.parent.glob(f"{broker.directory.name}-*")
        assert list(siblings) == []


def test_what_happens_in_a_snapshot_is_undone(kafka: Broker) -> None:
    address = kafka.bootstrap
    with kafka.snapshot():
        kafka.produce("trucks", ["more"])
        kafka.create_topics(["new"])
        assert texts(kafka) == ["seed", "more"]
    assert texts(kafka) == ["seed"]
    assert kafka.bootstrap == address
    with pytest.raises(LookupError):
        kafka.records("new")
    kafka.produce("trucks", ["after"], partition=0)
    assert texts(kafka) == ["seed", "after"]


def test_snapshots_may_lie_within_each_other(kafka: Broker) -> None:
    with kafka.snapshot():
        kafka.produce("trucks", ["outer"], partition=0)
        with kafka.snapshot():
            kafka.produce("trucks", ["inner"], partition=0)
        assert texts(kafka) == ["seed", "outer"]
    assert texts(kafka) == ["seed"]


def test_what_is_deleted_in_a_snapshot_comes_back(kafka: Broker) -> None:
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import AdminClient

    with kafka.snapshot():
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
        for done in admin.delete_records([TopicPartition("trucks", 0, 1)]).values():
            done.result(timeout=10)
        assert texts(kafka) == []
        for done in admin.delete_topics(["trucks"]).values():
            done.result(timeout=10)
        with pytest.raises(LookupError):
            kafka.records("trucks")
    assert texts(kafka) == ["seed"]


def test_groups_go_back_to_what_they_had_read(kafka: Broker) -> None:
    from confluent_kafka import Consumer

    def read(count: int) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": kafka.bootstrap,
                "group.id": "readers",
                "auto.offset.reset": "earliest",
            }
        )
        consumer.subscribe(["trucks"])
        assert len(consumer.consume(count, timeout=10)) == count
        consumer.close()  # commits

    read(1)
    with kafka.snapshot():
        kafka.produce("trucks", ["more"], partition=0)
        read(1)
        assert kafka.offsets("readers")["trucks", 0] == 2
    assert kafka.offsets("readers")["trucks", 0] == 1


def test_clients_come_back_after_a_snapshot(kafka: Broker) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": kafka.bootstrap, "log_level": 0})
    with kafka.snapshot():
        producer.produce("trucks", b"inside", partition=0)
        producer.flush(10)
        assert texts(kafka) == ["seed", "inside"]
    producer.produce("trucks", b"outside", partition=0)
    producer.flush(10)
    assert texts(kafka) == ["seed", "outside"]


def test_a_broker_that_is_stopped_in_a_snapshot_leaves_nothing() -> None:
    kafka = Broker(topics=["t"])
    kafka.start()
    directory = kafka.directory
    with kafka.snapshot():
        kafka.stop()
    assert list(directory.parent.glob(f"{directory.name}*")) == []


def test_a_fork_and_its_origin_go_on_without_each_other(kafka: Broker) -> None:
    with kafka.fork() as other:
        assert other.bootstrap != kafka.bootstrap
        other.produce("trucks", ["there"], partition=0)
        kafka.produce("trucks", ["here"], partition=0)
        assert texts(other) == ["seed", "there"]
        assert texts(kafka) == ["seed", "here"]
        kafka.reset()
        assert texts(kafka) == []
        assert texts(other) == ["seed", "there"]
        with other.fork() as third:
            assert texts(third) == ["seed", "there"]


def test_a_fork_that_never_starts_is_let_go_by_stopping_it(kafka: Broker) -> None:
    other = kafka.fork()
    with pytest.raises(NotRunning):
        _ = other.bootstrap
    other.stop()


def test_a_fork_knows_what_producers_have_sent(kafka: Broker) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": kafka.bootstrap, "enable.idempotence": True})
    producer.produce("trucks", b"once", partition=0)
    producer.flush()
    with kafka.fork() as other:
        states = [it._broker._running.partitions.get("trucks", 0) for it in (kafka, other)]
        before, after = (it.log.producers.encode() for it in states if it is not None)
        assert before == after
        assert len(before) > 10


async def test_an_asynchronous_broker_goes_both_ways() -> None:
    async with AsyncBroker(topics=["trucks"]) as kafka:
        kafka.produce("trucks", ["seed"])
        async with kafka.snapshot():
            kafka.produce("trucks", ["inside"])
        assert texts(kafka) == ["seed"]
        async with kafka.fork() as other:
            other.produce("trucks", ["there"])
            assert texts(other) == ["seed", "there"]
        assert texts(kafka) == ["seed"]


def test_data_in_a_directory_of_the_callers_goes_back_too(tmp_path: Path) -> None:
    with Broker(topics=["trucks"], data=tmp_path / "data") as kafka:
        with kafka.snapshot():
            kafka.produce("trucks", ["inside"])
        assert texts(kafka) == []
        kafka.produce("trucks", ["kept"])
    with Broker(data=tmp_path / "data") as kafka:
        assert texts(kafka) == ["kept"]
    assert [it.name for it in tmp_path.iterdir()] == ["data"]


def test_data_is_saved_for_any_broker_to_start_on(kafka: Broker, tmp_path: Path) -> None:
    kafka.save(tmp_path)
    with Broker(data=tmp_path) as other:
        assert texts(other) == ["seed"]


def test_much_data_is_shared_and_not_copied() -> None:
    with Broker(topics={"trucks": 10}) as kafka:
        kafka.produce("trucks", [b"x" * 100] * MANY)
        began = time.process_time()
        other = kafka.fork()
        assert time.process_time() - began < COPY_SECONDS_MAX
        with other:
            assert len(other.records("trucks")) == MANY
        began = time.process_time()
        with kafka.snapshot():
            pass
        assert time.process_time() - began < COPY_SECONDS_MAX
        assert len(kafka.records("trucks")) == MANY
