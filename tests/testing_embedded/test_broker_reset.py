"""After a reset, a broker has the state of a new one."""

import time
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest

from pykbroker import AsyncBroker, Broker, Topic
from pykbroker.metadata.image import ClusterImage
from pykbroker.testing import broker_reset
from pykbroker.testing.broker_reset import NotClean
from pykbroker.testing.inspection import UnknownTopic
from pykbroker.testing.seeding import NotWritten

RESET_SECONDS_MAX = 0.005  # of processor time: the machine may have other work
RESTORED = {"topics", "topics_by_id", "unified_names", "configurations"}
LASTING = {
    "brokers": "the node itself",
    "cluster_id": "the node's cluster",
    "controller_id": "the node itself",
    "features": "what the cluster speaks",
    "next_producer_id": "ids are never reused, and tests do not depend on their value",
    "offset": "the metadata log goes on",
}


@pytest.fixture
def kafka() -> Iterator[Broker]:
    with Broker(topics={"trucks": 10, "plain": Topic(config={"retention.ms": 1})}) as broker:
        yield broker


def test_reset_covers_every_field_of_the_metadata_image() -> None:
    assert set(ClusterImage.__slots__) == RESTORED | LASTING.keys()


def test_reset_deletes_records_groups_and_offsets(kafka: Broker) -> None:
    from kafka import KafkaConsumer

    def read_all() -> int:
        consumer = KafkaConsumer(
            "trucks",
            bootstrap_servers=kafka.bootstrap,
            group_id="readers",
            auto_offset_reset="earliest",
        )
        found = sum(map(len, consumer.poll(5000).values()))
        consumer.close()
        return found

    kafka.produce("trucks", ["a"])
    assert read_all() == 1
    assert kafka.offsets("readers")
    kafka.reset()
    assert kafka.records("trucks") == []
    assert kafka.offsets("readers") == {}
    kafka.produce("trucks", ["a"])
    assert read_all() == 1


def test_reset_restores_the_topics_of_the_start(kafka: Broker) -> None:
    from kafka import KafkaAdminClient

    admin = KafkaAdminClient(bootstrap_servers=kafka.bootstrap)
    kafka.create_topics(["new"])
    admin.delete_topics(["trucks"])
    kafka.reset()
    assert set(admin.list_topics()) == {"trucks", "plain"}
    kafka.reset(topics={"other": 2})
    assert set(admin.list_topics()) == {"other"}
    kafka.reset()
    assert set(admin.list_topics()) == {"other"}
    admin.close()


def test_reset_removes_dynamic_configurations(kafka: Broker) -> None:
    administration: Any = import_module("confluent_kafka.admin")

    def alter(kind: str, name: str, property_name: str, value: str) -> None:
        entry = administration.ConfigEntry(
            property_name,
            value,
            incremental_operation=administration.AlterConfigOpType.SET,
        )
        resource = administration.ConfigResource(kind, name, incremental_configs=[entry])
        for done in admin.incremental_alter_configs([resource]).values():
            done.result(timeout=10)

    def described(kind: str, name: str, property_name: str) -> str:
        (done,) = admin.describe_configs([administration.ConfigResource(kind, name)]).values()
        return str(done.result(timeout=10)[property_name].value)

    admin = administration.AdminClient({"bootstrap.servers": kafka.bootstrap})
    alter("topic", "plain", "retention.ms", "5")
    alter("broker", "1", "message.max.bytes", "1000")
    assert described("broker", "1", "message.max.bytes") == "1000"
    kafka.reset()
    assert described("topic", "plain", "retention.ms") == "1"
    assert described("broker", "1", "message.max.bytes") == "1048588"


def test_a_connected_producer_writes_to_the_recreated_topic(kafka: Broker) -> None:
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap)
    producer.send("trucks", b"before").get(10)
    kafka.reset()
    producer.send("trucks", b"after").get(10)
    assert [it.text for it in kafka.wait_for("trucks", count=1)] == ["after"]
    producer.close()


@pytest.mark.parametrize("fault", ["disk_full", "disk_error"])
def test_reset_works_during_a_disk_fault(kafka: Broker, fault: str) -> None:
    kafka.create_topics(["new"])
    kafka.produce("trucks", ["before"])
    getattr(kafka.faults, fault)()
    with pytest.raises(NotWritten):
        kafka.produce("trucks", ["refused"])
    kafka.reset()
    assert kafka.records("trucks") == []
    with pytest.raises(UnknownTopic):
        kafka.records("new")


async def test_a_rejected_deletion_raises_not_clean() -> None:
    async with AsyncBroker(topics=["trucks"]) as kafka:
        with kafka.faults.disk_full(), pytest.raises(NotClean, match="trucks cannot be reset: "):
            await broker_reset.clear(kafka._running, [])
        await broker_reset.clear(kafka._running, [])


def test_reset_clears_the_timeline(kafka: Broker) -> None:
    from kafka import KafkaAdminClient

    KafkaAdminClient(bootstrap_servers=kafka.bootstrap).close()
    assert len(kafka.timeline)
    kafka.reset()
    assert str(kafka.timeline) == "(no events)"


def test_reset_takes_milliseconds(kafka: Broker) -> None:
    durations = []
    for _ in range(10):
        kafka.produce("trucks", ["a"] * 100)
        began = time.process_time()
        kafka.reset()
        durations.append(time.process_time() - began)
    assert min(durations) < RESET_SECONDS_MAX
