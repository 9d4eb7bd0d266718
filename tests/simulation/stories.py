"""What clients do in simulated worlds, and the histories they leave."""

from __future__ import annotations

import asyncio
import itertools
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.abc import ConsumerRebalanceListener
from aiokafka.errors import KafkaError

from pykbroker.testing.history import History, Isolation, Record

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from pykbroker.testing.history import Client
    from pykbroker.testing.simulation import SimulatedNode

TOPIC = "trucks"
PARTITIONS = 3

# Aiokafka's defaults are for people who wait; these fit accidents that last seconds.
IMPATIENT: dict[str, Any] = {"request_timeout_ms": 5_000, "metadata_max_age_ms": 10_000}
PRODUCER = {**IMPATIENT, "retry_backoff_ms": 50}
CONSUMER = {
    **IMPATIENT,
    "session_timeout_ms": 6_000,
    "heartbeat_interval_ms": 1_000,
    "rebalance_timeout_ms": 6_000,
    "max_poll_interval_ms": 30_000,
    "auto_offset_reset": "earliest",
    "enable_auto_commit": False,
}


@dataclass
class Cast:
    """Who plays: the broker, what is written down of it, and the draws of the clients."""

    kafka: SimulatedNode
    chance: random.Random
    history: History = field(default_factory=History)
    names: itertools.count[int] = field(default_factory=itertools.count)

    def client(self, kind: str, **how: Any) -> Client:
        return self.history.client(f"{kind}-{next(self.names)}", **how)


async def until(condition: Callable[[], bool], seconds: float = 600) -> None:
    """Of virtual time."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110  # nobody tells
            await asyncio.sleep(1)


# --- writing


async def write(cast: Cast, count: int) -> None:
    """An idempotent producer, replaced by another one when it can go on no more."""
    left = count
    while left:
        told = cast.client("writer")
        with suppress(KafkaError):
            async with AIOKafkaProducer(
                bootstrap_servers=cast.kafka.bootstrap, enable_idempotence=True, **PRODUCER
            ) as producer:
                while left:
                    left -= 1
                    await send(cast, producer, told, f"{told.name}/{left}")
        await asyncio.sleep(cast.chance.uniform(0, 1))


async def send(cast: Cast, producer: Any, told: Client, value: str) -> None:
    partition = cast.chance.randrange(PARTITIONS)
    sending = told.sending(TOPIC, value, partition=partition)
    try:
        answer = await producer.send_and_wait(TOPIC, value.encode(), partition=partition)
    except KafkaError as error:
        sending.unanswered(error)
        raise
    sending.sent(partition=answer.partition, offset=answer.offset)
    if cast.chance.random() < 0.3:
        await asyncio.sleep(cast.chance.uniform(0, 1))


async def write_transactions(cast: Cast, transactional_id: str, count: int) -> None:
    """Some are committed, some aborted; whoever fails is replaced and fenced."""
    left = count
    while left:
        with suppress(KafkaError):
            async with AIOKafkaProducer(
                bootstrap_servers=cast.kafka.bootstrap,
                transactional_id=transactional_id,
                transaction_timeout_ms=10_000,
                **PRODUCER,
            ) as producer:
                told = cast.client(transactional_id)
                while left:
                    left -= 1
                    await one_transaction(cast, producer, told, left)
        await asyncio.sleep(cast.chance.uniform(0, 1))


async def one_transaction(cast: Cast, producer: Any, told: Client, number: int) -> None:
    await producer.begin_transaction()
    transaction = told.begun()
    for part in range(cast.chance.randint(1, 4)):
        await send(cast, producer, told, f"{told.name}/{number}/{part}")
    commits = cast.chance.random() < 0.7
    if commits:
        transaction.committing()
    else:
        transaction.aborting()
    try:
        await (producer.commit_transaction() if commits else producer.abort_transaction())
    except KafkaError as error:
        transaction.unanswered(error)
        raise
    if commits:
        transaction.committed()
    else:
        transaction.aborted()


# --- reading


async def read_all(
    cast: Cast, isolation: Isolation = Isolation.READ_COMMITTED, *, topic: str = TOPIC
) -> list[str]:
    """A reader of its own, from the beginning to the end, after all is said and done."""
    told = cast.client("auditor", isolation=isolation)
    places = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    async with AIOKafkaConsumer(
        bootstrap_servers=cast.kafka.bootstrap,
        isolation_level=isolation.value,
        **CONSUMER,
    ) as consumer:
        consumer.assign(places)
        await consumer.seek_to_beginning(*places)
        ends = await consumer.end_offsets(places)
        told.assigned(*((it.topic, it.partition, 0) for it in places))
        found: list[str] = []
        while [it for it in places if await consumer.position(it) < ends[it]]:
            records = await poll(consumer, told)
            found += [str(it.value) for it in records]
        return found


async def poll(consumer: Any, told: Client, timeout_ms: int = 1_000) -> list[Record]:
    polled = await consumer.getmany(timeout_ms=timeout_ms, max_records=50)
    records = [
        Record(it.topic, it.partition, it.offset, it.value.decode())
        for several in polled.values()
        for it in several
    ]
    told.polled(records)
    return records


async def read_in_group(cast: Cast, group_id: str, done: set[str]) -> None:
    """A member of a group that commits what it has worked on, until somebody ends it."""
    while True:
        told = cast.client("member")
        with suppress(KafkaError):
            async with AIOKafkaConsumer(
                bootstrap_servers=cast.kafka.bootstrap, group_id=group_id, **CONSUMER
            ) as consumer:
                consumer.subscribe([TOPIC], listener=Moves(told))
                while True:
                    records = await poll(consumer, told)
                    await asyncio.sleep(cast.chance.uniform(0, 0.2))
                    done.update(str(it.value) for it in records)
                    if records:
                        await consumer.commit()
        await asyncio.sleep(0.5)


class Moves(ConsumerRebalanceListener):  # type: ignore[misc]  # has no types
    """Tells the history that a reader was sent somewhere else."""

    def __init__(self, told: Client) -> None:
        self._told = told

    def on_partitions_revoked(self, revoked: Any) -> None:
        self._told.revoked(*((it.topic, it.partition) for it in sorted(revoked)))

    def on_partitions_assigned(self, assigned: Any) -> None:
        self._told.assigned(*((it.topic, it.partition) for it in sorted(assigned)))
