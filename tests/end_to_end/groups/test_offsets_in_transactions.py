"""Consume, transform, produce: input offsets and output records are committed atomically."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.structs import TopicPartition as AiokafkaPlace
from confluent_kafka import OFFSET_INVALID, Consumer, KafkaException, Producer, TopicPartition
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as KafkaPythonPlace
from kafka.structs import OffsetAndMetadata

from tests.end_to_end.groups.test_textbook import SETTINGS
from tests.end_to_end.groups.writing import create_topic

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from confluent_kafka import Message

    from compat.broker_process import BrokerProcess
    from tests.end_to_end.conftest import StartBroker

SOURCE, SINK = "orders", "invoices"
GROUP = "billing"
RECORDS = 60
PARTITIONS = 2
PER_TRANSACTION = 7
TIMEOUT_SECONDS = 60.0
EVERY_THIRD = 3

ORDERS = [f"order {number}" for number in range(RECORDS)]


@pytest.fixture
def broker(start_broker: StartBroker) -> BrokerProcess:
    """A topic with orders that no group has read."""
    broker = start_broker(settings=SETTINGS)
    create_topic(broker.bootstrap, SOURCE, PARTITIONS)
    create_topic(broker.bootstrap, SINK, 1)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number, order in enumerate(ORDERS):
        producer.produce(SOURCE, order, partition=number % PARTITIONS)
    assert producer.flush(TIMEOUT_SECONDS) == 0
    return broker


def is_aborted(transaction: int) -> bool:
    return transaction % EVERY_THIRD == EVERY_THIRD - 1


def confluent_consumer(broker: BrokerProcess, **more: Any) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": GROUP,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            **more,
        }
    )


def bill_with_confluent(broker: BrokerProcess, **consuming: Any) -> None:
    consumer = confluent_consumer(broker, **consuming)
    consumer.subscribe([SOURCE])
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "biller"})
    producer.init_transactions(TIMEOUT_SECONDS)
    billed = transaction = 0
    while billed < RECORDS:
        orders = consumer.consume(PER_TRANSACTION, 0.5)
        if not orders:
            continue
        producer.begin_transaction()
        for order in orders:
            producer.produce(SINK, order.value())
        positions = consumer.position(consumer.assignment())
        producer.send_offsets_to_transaction(
            [it for it in positions if it.offset >= 0],
            consumer.consumer_group_metadata(),
            TIMEOUT_SECONDS,
        )
        if is_aborted(transaction):
            producer.abort_transaction(TIMEOUT_SECONDS)
            rewind(consumer, orders)
        else:
            producer.commit_transaction(TIMEOUT_SECONDS)
            billed += len(orders)
        transaction += 1
    consumer.close()


def rewind(consumer: Consumer, messages: Sequence[Any]) -> None:
    """Seeks to the first of these records in each partition."""
    for message in reversed(messages):
        consumer.seek(TopicPartition(message.topic(), message.partition(), message.offset()))


def bill_with_the_next_protocol(broker: BrokerProcess) -> None:
    bill_with_confluent(broker, **{"group.protocol": "consumer"})


def bill_with_kafka_python(broker: BrokerProcess) -> None:
    consumer = KafkaConsumer(
        SOURCE,
        bootstrap_servers=broker.bootstrap,
        group_id=GROUP,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        isolation_level="read_committed",
    )
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap, transactional_id="biller")
    producer.init_transactions()
    billed = transaction = 0
    while billed < RECORDS:
        found = consumer.poll(timeout_ms=500, max_records=PER_TRANSACTION)
        if not found:
            continue
        producer.begin_transaction()
        ends = {}
        for place, orders in found.items():
            for order in orders:
                producer.send(SINK, order.value)
            ends[place] = OffsetAndMetadata(orders[-1].offset + 1, "", -1)
        producer.send_offsets_to_transaction(ends, consumer.group_metadata())
        if is_aborted(transaction):
            producer.abort_transaction()
            for place, orders in found.items():
                consumer.seek(KafkaPythonPlace(place.topic, place.partition), orders[0].offset)
        else:
            producer.commit_transaction()
            billed += sum(map(len, found.values()))
        transaction += 1
    producer.close()
    consumer.close()


def bill_with_aiokafka(broker: BrokerProcess) -> None:
    asyncio.run(bill_on_a_loop(broker))


async def bill_on_a_loop(broker: BrokerProcess) -> None:
    consumer = AIOKafkaConsumer(
        SOURCE,
        bootstrap_servers=broker.bootstrap,
        group_id=GROUP,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        isolation_level="read_committed",
    )
    producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap, transactional_id="biller")
    async with consumer, producer:
        billed = transaction = 0
        while billed < RECORDS:
            found = await consumer.getmany(timeout_ms=500, max_records=PER_TRANSACTION)
            if not found:
                continue
            await producer.begin_transaction()
            for orders in found.values():
                for order in orders:
                    await producer.send(SINK, order.value)
            ends = {place: orders[-1].offset + 1 for place, orders in found.items()}
            await producer.send_offsets_to_transaction(ends, GROUP)
            if is_aborted(transaction):
                await producer.abort_transaction()
                for place, orders in found.items():
                    consumer.seek(AiokafkaPlace(place.topic, place.partition), orders[0].offset)
            else:
                await producer.commit_transaction()
                billed += sum(map(len, found.values()))
            transaction += 1


def invoices(broker: BrokerProcess) -> list[str]:
    """Returns all committed records of the sink."""
    consumer = confluent_consumer(broker, **{"group.id": "auditor"})
    consumer.subscribe([SINK])
    found: list[str] = []
    while len(found) < RECORDS:
        found += texts(consumer.consume(RECORDS, 0.2))
    found += texts(consumer.consume(1, 0.5))
    consumer.close()
    return found


def texts(messages: Sequence[Message]) -> list[str]:
    return [(it.value() or b"").decode() for it in messages]


def committed(broker: BrokerProcess) -> dict[int, int]:
    """Offsets with UNSTABLE_OFFSET_COMMIT while transactions are open."""
    consumer = confluent_consumer(broker)
    places = [TopicPartition(SOURCE, number) for number in range(PARTITIONS)]
    found = {it.partition: it.offset for it in consumer.committed(places, TIMEOUT_SECONDS)}
    consumer.close()
    return found


BILLERS = (
    bill_with_confluent,
    bill_with_the_next_protocol,
    bill_with_kafka_python,
    bill_with_aiokafka,
)


@pytest.mark.parametrize("bill", BILLERS)
def test_every_order_is_billed_once_despite_aborted_transactions(
    broker: BrokerProcess, bill: Callable[[BrokerProcess], None]
) -> None:
    bill(broker)
    assert sorted(invoices(broker)) == sorted(ORDERS)
    ends = dict.fromkeys(range(PARTITIONS), RECORDS // PARTITIONS)
    assert committed(broker) == ends
    broker.kill()
    broker.start()
    assert committed(broker) == ends, "after a crash"


@pytest.mark.parametrize("ends_by", ["commit", "abort", "a successor"])
def test_a_transaction_that_was_open_at_a_kill_is_ended_after_the_restart(
    broker: BrokerProcess, ends_by: str
) -> None:
    consumer = confluent_consumer(broker)
    consumer.subscribe([SOURCE])
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "biller"})
    producer.init_transactions(TIMEOUT_SECONDS)
    while not (orders := consumer.consume(PER_TRANSACTION, 1.0)):
        pass
    read = TopicPartition(SOURCE, orders[-1].partition() or 0, (orders[-1].offset() or 0) + 1)
    producer.begin_transaction()
    producer.send_offsets_to_transaction(
        [read], consumer.consumer_group_metadata(), TIMEOUT_SECONDS
    )
    broker.kill()
    broker.start()
    with pytest.raises(KafkaException):
        consumer.committed([read], 2.0)  # waits for the end of the transaction
    match ends_by:
        case "commit":
            producer.commit_transaction(TIMEOUT_SECONDS)
        case "abort":
            producer.abort_transaction(TIMEOUT_SECONDS)
        case _:
            successor = Producer(
                {"bootstrap.servers": broker.bootstrap, "transactional.id": "biller"}
            )
            successor.init_transactions(TIMEOUT_SECONDS)
            with pytest.raises(KafkaException):
                producer.commit_transaction(TIMEOUT_SECONDS)
    consumer.close()
    expected = read.offset if ends_by == "commit" else OFFSET_INVALID
    assert committed(broker)[read.partition] == expected
    broker.kill()
    broker.start()
    assert committed(broker)[read.partition] == expected, "after another crash"
