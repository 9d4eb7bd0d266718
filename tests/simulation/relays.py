"""Transactional relays that copy records from one topic to another, one relay per partition."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError

from tests.simulation.aiokafka_clients import CONSUMER, PRODUCER, TOPIC

if TYPE_CHECKING:
    from pykbroker.testing.history import Client
    from tests.simulation.aiokafka_clients import Clients

SINK = "sink"
GROUP = "relays"


async def relay(clients: Clients, partition: int) -> None:
    """Relays one partition until killed. A new relay of the same partition fences the old one."""
    while True:
        with suppress(KafkaError):
            async with AIOKafkaProducer(
                bootstrap_servers=clients.kafka.bootstrap,
                transactional_id=f"relay-{partition}",
                transaction_timeout_ms=10_000,
                **PRODUCER,
            ) as producer:
                # After the start: it aborts an open transaction of an earlier relay.
                await carry(clients, producer, partition)
        await asyncio.sleep(clients.chance.uniform(0.1, 1))


async def carry(clients: Clients, producer: Any, partition: int) -> None:
    recorded, place = clients.client(f"relay-{partition}"), TopicPartition(TOPIC, partition)
    async with AIOKafkaConsumer(
        bootstrap_servers=clients.kafka.bootstrap,
        group_id=GROUP,
        isolation_level="read_committed",
        **CONSUMER,
    ) as consumer:
        consumer.assign([place])
        position = await consumer.committed(place) or 0
        consumer.seek(place, position)
        recorded.assigned((TOPIC, partition, position))
        while True:
            polled = await consumer.getmany(timeout_ms=500, max_records=5)
            if polled.get(place):
                await pass_on(producer, recorded, polled[place])


async def pass_on(producer: Any, recorded: Client, records: list[Any]) -> None:
    await producer.begin_transaction()
    transaction = recorded.begun()
    for record in records:
        value = f"{record.value.decode()}@{recorded.name}"
        sending = recorded.sending(SINK, value, partition=record.partition)
        try:
            answer = await producer.send_and_wait(SINK, value.encode(), partition=record.partition)
        except KafkaError as error:
            sending.unanswered(error)
            raise
        sending.sent(partition=answer.partition, offset=answer.offset)
    place = TopicPartition(TOPIC, records[0].partition)
    await producer.send_offsets_to_transaction({place: records[-1].offset + 1}, GROUP)
    transaction.committing()
    try:
        await producer.commit_transaction()
    except KafkaError as error:
        transaction.unanswered(error)
        raise
    transaction.committed()


def origin_of(value: str) -> str:
    return value.partition("@")[0]
