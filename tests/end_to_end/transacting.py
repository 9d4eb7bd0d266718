"""Transactions over all partitions of a topic, and read_committed consumers."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from compat.broker_process import BrokerProcess

PARTITIONS = 4
TIMEOUT_SECONDS = 30


def transactional(bootstrap: str) -> Any:
    from confluent_kafka import Producer

    return Producer({"bootstrap.servers": bootstrap, "transactional.id": "the id", "log_level": 0})


def read_to_the_end(bootstrap: str, topic: str, isolation: str) -> dict[int, list[bytes]]:
    """Reads each partition up to its current end, like a Spark batch."""
    from confluent_kafka import Consumer, KafkaError, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "readers",
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "log_level": 0,
        }
    )
    found: dict[int, list[bytes]] = {index: [] for index in range(PARTITIONS)}
    waiting = set(found)
    try:
        consumer.assign([TopicPartition(topic, index, 0) for index in found])
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while waiting:
            assert time.monotonic() < deadline, f"{topic}: no end at partitions {waiting}"
            message = consumer.poll(1)
            if message is None:
                continue
            if (error := message.error()) is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                waiting.discard(message.partition())
            else:
                found[message.partition() or 0].append(message.value() or b"")
        ends = [TopicPartition(topic, index, len(found[index])) for index in found]
        consumer.commit(offsets=ends, asynchronous=False)
    finally:
        consumer.close()
    return found


def transact(producer: Any, value: bytes) -> None:
    """Begins a transaction with one record in each partition."""
    producer.begin_transaction()
    for partition in range(PARTITIONS):
        producer.produce("tx", value, partition=partition)


def transact_once(bootstrap: str, value: bytes) -> None:
    producer = transactional(bootstrap)
    producer.init_transactions(TIMEOUT_SECONDS)
    transact(producer, value)
    producer.commit_transaction(TIMEOUT_SECONDS)


def expect_that_transactions_go_on(broker: BrokerProcess, value: bytes) -> None:
    """Expects that the id can be used again and that no open transaction hides its records."""
    transact_once(broker.bootstrap, value)
    deadline = time.monotonic() + TIMEOUT_SECONDS
    last: set[bytes] = set()
    while last != {value}:  # the response precedes the markers
        assert time.monotonic() < deadline, f"{value!r} is committed and cannot be read: {last}"
        found = read_to_the_end(broker.bootstrap, "tx", "read_committed")
        last = {values[-1] if values else b"" for values in found.values()}
