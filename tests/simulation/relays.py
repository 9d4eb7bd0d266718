"""Relays that take records from one topic to another in transactions, each partition by its own."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError

from tests.simulation.stories import CONSUMER, PRODUCER, TOPIC

if TYPE_CHECKING:
    from pykbroker.testing.history import Client
    from tests.simulation.stories import Cast

SINK = "sink"
GROUP = "relays"


async def relay(cast: Cast, partition: int) -> None:
    """For ever; whoever starts anew with the same partition fences the one before."""
    while True:
        with suppress(KafkaError):
            async with AIOKafkaProducer(
                bootstrap_servers=cast.kafka.bootstrap,
                transactional_id=f"relay-{partition}",
                transaction_timeout_ms=10_000,
                **PRODUCER,
            ) as producer:
                # Only now: what an earlier relay has left open is aborted, its offsets with it.
                await carry(cast, producer, partition)
        await asyncio.sleep(cast.chance.uniform(0.1, 1))


async def carry(cast: Cast, producer: Any, partition: int) -> None:
    told, place = cast.client(f"relay-{partition}"), TopicPartition(TOPIC, partition)
    async with AIOKafkaConsumer(
        bootstrap_servers=cast.kafka.bootstrap,
        group_id=GROUP,
        isolation_level="read_committed",
        **CONSUMER,
    ) as consumer:
        consumer.assign([place])
        position = await consumer.committed(place) or 0
        consumer.seek(place, position)
        told.assigned((TOPIC, partition, position))
        while True:
            polled = await consumer.getmany(timeout_ms=500, max_records=5)
            if polled.get(place):
                await pass_on(producer, told, polled[place])


async def pass_on(producer: Any, told: Client, records: list[Any]) -> None:
    await producer.begin_transaction()
    transaction = told.begun()
    for record in records:
        value = f"{record.value.decode()}@{told.name}"
        sending = told.sending(SINK, value, partition=record.partition)
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
