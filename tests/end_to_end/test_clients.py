"""Stock Python clients produce, consume and administer, unchanged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from compat.broker_process import BrokerProcess

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
HEADERS = [("trace", b"\x00\x01"), ("empty", b"")]


def confluent_producer(broker: BrokerProcess, **settings: object) -> Any:
    from confluent_kafka import Producer

    return Producer({"bootstrap.servers": broker.bootstrap, **settings})


def confluent_records(broker: BrokerProcess, topic: str, count: int) -> list[Any]:
    """Reads `count` records of partition 0 with manual assignment."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": "none", "enable.auto.commit": False}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    records: list[Any] = []
    for _ in range(200):
        records += [it for it in consumer.consume(count - len(records), 0.1) if not it.error()]
        if len(records) >= count:
            break
    consumer.close()
    return records


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_librdkafka_reads_what_it_wrote(broker: BrokerProcess, codec: str, acks: str) -> None:
    topic = f"t-{codec}-{acks}"
    producer = confluent_producer(
        broker, **{"compression.codec": codec, "acks": acks, "linger.ms": 5}
    )
    for number in range(100):
        producer.produce(topic, key=f"k{number}", value=f"v{number}" * 10, headers=HEADERS)
    assert producer.flush(20) == 0
    records = confluent_records(broker, topic, 100)
    assert [it.value() for it in records] == [f"v{number}".encode() * 10 for number in range(100)]
    assert [it.offset() for it in records] == list(range(100))
    assert records[0].headers() == HEADERS


def test_an_idempotent_librdkafka_producer_is_served(broker: BrokerProcess) -> None:
    producer = confluent_producer(broker, **{"enable.idempotence": True})
    offsets: list[int] = []
    for number in range(1000):
        producer.produce(
            "once", value=str(number), on_delivery=lambda _, it: offsets.append(it.offset())
        )
    assert producer.flush(20) == 0
    assert offsets == list(range(1000))


def test_kafka_python_administers_produces_and_consumes(broker: BrokerProcess) -> None:
    from kafka import KafkaConsumer, KafkaProducer, TopicPartition
    from kafka.admin import KafkaAdminClient

    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    admin.create_topics({"seen": {"num_partitions": 3, "replication_factor": 1}})
    assert "seen" in admin.list_topics()
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap, acks="all")
    sent = [
        producer.send("seen", value=b"v%d" % number, partition=number % 3).get(20)
        for number in range(30)
    ]
    assert [it.offset for it in sent] == [number // 3 for number in range(30)]
    consumer = KafkaConsumer(
        bootstrap_servers=broker.bootstrap,
        auto_offset_reset="earliest",
        consumer_timeout_ms=2000,
    )
    consumer.assign([TopicPartition("seen", partition) for partition in range(3)])
    assert len(list(consumer)) == 30
    assert consumer.end_offsets([TopicPartition("seen", 1)]) == {TopicPartition("seen", 1): 10}
    for client in (admin, producer, consumer):
        client.close()


async def test_aiokafka_produces_and_consumes(broker: BrokerProcess) -> None:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

    producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap, enable_idempotence=True)
    await producer.start()
    try:
        for number in range(50):
            await producer.send_and_wait("aio", b"%d" % number, key=b"k")
    finally:
        await producer.stop()
    consumer = AIOKafkaConsumer(bootstrap_servers=broker.bootstrap)
    await consumer.start()
    try:
        partition = TopicPartition("aio", 0)
        consumer.assign([partition])
        consumer.seek(partition, 10)
        values = [(await consumer.getone()).value for _ in range(40)]
    finally:
        await consumer.stop()
    assert values == [b"%d" % number for number in range(10, 50)]


def test_a_topic_keeps_its_records_across_a_kill(broker: BrokerProcess) -> None:
    producer = confluent_producer(broker, acks="all")
    for number in range(500):
        producer.produce("kept", value=str(number))
    assert producer.flush(20) == 0
    broker.kill()
    broker.start()
    records = confluent_records(broker, "kept", 500)
    assert [int(it.value()) for it in records] == list(range(500))
