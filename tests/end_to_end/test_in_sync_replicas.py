"""One node with min.insync.replicas=2: only acks=all fails."""

from __future__ import annotations

from typing import TYPE_CHECKING

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic  # where the untyped module says it lives

if TYPE_CHECKING:
    from compat.broker_process import BrokerProcess
    from tests.end_to_end.conftest import StartBroker

WAIT_SECONDS_MAX = 20.0
ASKS_FOR_TWO, ASKS_FOR_ONE = "asks-for-two", "asks-for-one"


def broker_that_asks_for_two(start_broker: StartBroker) -> BrokerProcess:
    """The broker's default also applies to internal topics."""
    broker = start_broker(settings={"min.insync.replicas": 2})
    topics = [
        NewTopic(ASKS_FOR_TWO, 1, 1),
        NewTopic(ASKS_FOR_ONE, 1, 1, config={"min.insync.replicas": "1"}),
    ]
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for future in admin.create_topics(topics).values():
        future.result(WAIT_SECONDS_MAX)
    return broker


def error_of_a_produce(broker: BrokerProcess, acks: str) -> int | None:
    errors: list[int | None] = []
    producer = Producer({"bootstrap.servers": broker.bootstrap, "acks": acks, "retries": 0})
    producer.produce(
        ASKS_FOR_TWO,
        value=acks,
        on_delivery=lambda error, _: errors.append(None if error is None else error.code()),
    )
    assert producer.flush(WAIT_SECONDS_MAX) == 0
    (error,) = errors
    return error


def test_acks_all_fails_and_acks_1_succeeds_below_min_insync_replicas(
    start_broker: StartBroker,
) -> None:
    broker = broker_that_asks_for_two(start_broker)
    assert error_of_a_produce(broker, "all") == KafkaError.NOT_ENOUGH_REPLICAS
    assert error_of_a_produce(broker, "1") is None
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g"})
    consumer.assign([TopicPartition(ASKS_FOR_TWO, 0, 0)])
    message = consumer.poll(WAIT_SECONDS_MAX)
    assert message is not None
    assert (message.offset(), message.value()) == (0, b"1")
    consumer.close()


def test_offsets_and_transactions_work_below_min_insync_replicas(start_broker: StartBroker) -> None:
    broker = broker_that_asks_for_two(start_broker)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "t"})
    producer.init_transactions(WAIT_SECONDS_MAX)
    producer.begin_transaction()
    producer.produce(ASKS_FOR_ONE, value="committed")
    producer.commit_transaction(WAIT_SECONDS_MAX)
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g"})
    consumer.assign([TopicPartition(ASKS_FOR_ONE, 0, 0)])
    message = consumer.poll(WAIT_SECONDS_MAX)
    assert message is not None
    assert message.value() == b"committed"
    consumer.commit(message=message, asynchronous=False)
    (kept,) = consumer.committed([TopicPartition(ASKS_FOR_ONE, 0)], timeout=WAIT_SECONDS_MAX)
    assert kept.offset == 1
    consumer.close()
