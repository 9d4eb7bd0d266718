"""aiokafka clients for simulations, which record a history."""

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

# aiokafka's default timeouts are too long for failures that last seconds.
SHORT_TIMEOUTS: dict[str, Any] = {"request_timeout_ms": 5_000, "metadata_max_age_ms": 10_000}
PRODUCER = {**SHORT_TIMEOUTS, "retry_backoff_ms": 50}
CONSUMER = {
    **SHORT_TIMEOUTS,
    "session_timeout_ms": 6_000,
    "heartbeat_interval_ms": 1_000,
    "rebalance_timeout_ms": 6_000,
    "max_poll_interval_ms": 30_000,
    "auto_offset_reset": "earliest",
    "enable_auto_commit": False,
}


@dataclass
class Clients:
    """The clients of a run: their broker, their history and their source of randomness."""

    kafka: SimulatedNode
    chance: random.Random
    history: History = field(default_factory=History)
    names: itertools.count[int] = field(default_factory=itertools.count)

    def client(self, kind: str, **how: Any) -> Client:
        return self.history.client(f"{kind}-{next(self.names)}", **how)


async def until(condition: Callable[[], bool], seconds: float = 600) -> None:
    """Polls the condition every virtual second."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110  # there is no event to wait for
            await asyncio.sleep(1)


# --- writing


async def write(clients: Clients, count: int) -> None:
    """Sends 'count' records with an idempotent producer; replaces the producer after an error."""
    left = count
    while left:
        recorded = clients.client("writer")
        with suppress(KafkaError):
            async with AIOKafkaProducer(
                bootstrap_servers=clients.kafka.bootstrap, enable_idempotence=True, **PRODUCER
            ) as producer:
                while left:
                    left -= 1
                    await send(clients, producer, recorded, f"{recorded.name}/{left}")
        await asyncio.sleep(clients.chance.uniform(0, 1))


async def send(clients: Clients, producer: Any, recorded: Client, value: str) -> None:
    partition = clients.chance.randrange(PARTITIONS)
    sending = recorded.sending(TOPIC, value, partition=partition)
    try:
        answer = await producer.send_and_wait(TOPIC, value.encode(), partition=partition)
    except KafkaError as error:
        sending.unanswered(error)
        raise
    sending.sent(partition=answer.partition, offset=answer.offset)
    if clients.chance.random() < 0.3:
        await asyncio.sleep(clients.chance.uniform(0, 1))


async def write_transactions(clients: Clients, transactional_id: str, count: int) -> None:
    """Commits or aborts transactions; after an error, a new producer fences the old one."""
    left = count
    while left:
        with suppress(KafkaError):
            async with AIOKafkaProducer(
                bootstrap_servers=clients.kafka.bootstrap,
                transactional_id=transactional_id,
                transaction_timeout_ms=10_000,
                **PRODUCER,
            ) as producer:
                recorded = clients.client(transactional_id)
                while left:
                    left -= 1
                    await one_transaction(clients, producer, recorded, left)
        await asyncio.sleep(clients.chance.uniform(0, 1))


async def one_transaction(clients: Clients, producer: Any, recorded: Client, number: int) -> None:
    await producer.begin_transaction()
    transaction = recorded.begun()
    for part in range(clients.chance.randint(1, 4)):
        await send(clients, producer, recorded, f"{recorded.name}/{number}/{part}")
    commits = clients.chance.random() < 0.7
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
    clients: Clients, isolation: Isolation = Isolation.READ_COMMITTED, *, topic: str = TOPIC
) -> list[str]:
    """Reads a topic from the start to the end with a new consumer without a group."""
    recorded = clients.client("auditor", isolation=isolation)
    partitions = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    async with AIOKafkaConsumer(
        bootstrap_servers=clients.kafka.bootstrap,
        isolation_level=isolation.value,
        **CONSUMER,
    ) as consumer:
        consumer.assign(partitions)
        await consumer.seek_to_beginning(*partitions)
        ends = await consumer.end_offsets(partitions)
        recorded.assigned(*((it.topic, it.partition, 0) for it in partitions))
        found: list[str] = []
        while [it for it in partitions if await consumer.position(it) < ends[it]]:
            records = await poll(consumer, recorded)
            found += [str(it.value) for it in records]
        return found


async def poll(consumer: Any, recorded: Client, timeout_ms: int = 1_000) -> list[Record]:
    polled = await consumer.getmany(timeout_ms=timeout_ms, max_records=50)
    records = [
        Record(it.topic, it.partition, it.offset, it.value.decode())
        for several in polled.values()
        for it in several
    ]
    recorded.polled(records)
    return records


async def read_in_group(clients: Clients, group_id: str, done: set[str]) -> None:
    """A group member that commits processed records. Runs until it is killed."""
    while True:
        recorded = clients.client("member")
        with suppress(KafkaError):
            async with AIOKafkaConsumer(
                bootstrap_servers=clients.kafka.bootstrap, group_id=group_id, **CONSUMER
            ) as consumer:
                consumer.subscribe([TOPIC], listener=RebalanceRecorder(recorded))
                while True:
                    records = await poll(consumer, recorded)
                    await asyncio.sleep(clients.chance.uniform(0, 0.2))
                    done.update(str(it.value) for it in records)
                    if records:
                        await consumer.commit()
        await asyncio.sleep(0.5)


class RebalanceRecorder(ConsumerRebalanceListener):  # type: ignore[misc]  # has no types
    """Records assignments and revocations in the history."""

    def __init__(self, recorded: Client) -> None:
        self._recorded = recorded

    def on_partitions_revoked(self, revoked: Any) -> None:
        self._recorded.revoked(*((it.topic, it.partition) for it in sorted(revoked)))

    def on_partitions_assigned(self, assigned: Any) -> None:
        self._recorded.assigned(*((it.topic, it.partition) for it in sorted(assigned)))
