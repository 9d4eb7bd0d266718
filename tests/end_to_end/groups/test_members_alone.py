"""Single members: independent groups, seeks, restarts and other libraries."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from aiokafka import AIOKafkaConsumer
from confluent_kafka import Consumer, Producer, TopicPartition
from kafka import KafkaConsumer
from kafka import TopicPartition as KafkaPythonPartition

from compat.clients.member_processes import MemberProcesses
from tests.end_to_end.groups.test_textbook import SETTINGS
from tests.end_to_end.groups.writing import create_topic

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from compat.broker_process import BrokerProcess
    from tests.end_to_end.conftest import StartBroker

TOPIC = "trucks"
PARTITIONS = 10
RECORDS = 100
HALF = 40
TIMEOUT_SECONDS = 30.0
VALUES = [b"%d" % number for number in range(RECORDS)]


@pytest.fixture
def broker(start_broker: StartBroker) -> BrokerProcess:
    """A topic with a hundred records, ten in each partition."""
    broker = start_broker(settings=SETTINGS)
    create_topic(broker.bootstrap, TOPIC, PARTITIONS)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number, value in enumerate(VALUES):
        producer.produce(TOPIC, value, partition=number % PARTITIONS)
    assert producer.flush(TIMEOUT_SECONDS) == 0
    return broker


# --- three libraries: read a number of records, commit, leave


def read_with_confluent(broker: BrokerProcess, group: str, count: int) -> list[bytes]:
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([TOPIC])
    found: list[Any] = []
    while len(found) < count:
        found += consumer.consume(count - len(found), 0.1)
    read_to = {(it.topic(), it.partition()): it.offset() + 1 for it in found}
    consumer.commit(
        offsets=[TopicPartition(*place, offset) for place, offset in read_to.items()],
        asynchronous=False,
    )
    consumer.close()
    return [it.value() for it in found]


def read_with_kafka_python(broker: BrokerProcess, group: str, count: int) -> list[bytes]:
    consumer = KafkaConsumer(
        TOPIC,
        bootstrap_servers=broker.bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    found = [next(consumer).value for _ in range(count)]
    consumer.commit()
    consumer.close()
    return found


def read_with_aiokafka(broker: BrokerProcess, group: str, count: int) -> list[bytes]:
    async def read() -> list[bytes]:
        consumer = AIOKafkaConsumer(
            TOPIC,
            bootstrap_servers=broker.bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        await consumer.start()
        try:
            found = [(await consumer.getone()).value for _ in range(count)]
            await consumer.commit()
        finally:
            await consumer.stop()
        return found

    return asyncio.run(read())


READERS: dict[str, Callable[[BrokerProcess, str, int], list[bytes]]] = {
    "confluent": read_with_confluent,
    "kafka-python": read_with_kafka_python,
    "aiokafka": read_with_aiokafka,
}


@pytest.mark.parametrize("library", READERS)
def test_a_group_continues_at_its_committed_offsets_after_a_kill(
    library: str, broker: BrokerProcess
) -> None:
    read = READERS[library]
    before = read(broker, "fleet", HALF)
    broker.kill()
    broker.start()
    after = read(broker, "fleet", RECORDS - HALF)
    assert sorted(before + after) == sorted(VALUES)


def test_another_library_continues_at_the_committed_offsets(broker: BrokerProcess) -> None:
    counts = dict(zip(READERS, (20, 30, 50), strict=True))
    seen = [it for name, count in counts.items() for it in READERS[name](broker, "fleet", count)]
    assert sorted(seen) == sorted(VALUES)


def test_groups_are_independent_of_each_other(broker: BrokerProcess) -> None:
    read_with_confluent(broker, "dashboard", HALF)
    assert sorted(read_with_confluent(broker, "alarms", RECORDS)) == sorted(VALUES)
    rest = read_with_confluent(broker, "dashboard", RECORDS - HALF)
    assert len(set(rest)) == RECORDS - HALF


def test_a_member_can_seek_to_any_offset(broker: BrokerProcess) -> None:
    consumer = KafkaConsumer(
        TOPIC,
        bootstrap_servers=broker.bootstrap,
        group_id="fleet",
        auto_offset_reset="earliest",
    )
    assert sorted(next(consumer).value for _ in VALUES) == sorted(VALUES)
    place = KafkaPythonPartition(TOPIC, 3)
    for offset in (7, 0, 9):
        consumer.seek(place, offset)
        record = next(consumer)
        assert (record.partition, record.offset) == (3, offset)
        assert record.value == VALUES[offset * PARTITIONS + 3]
        consumer.seek_to_end(place)
    consumer.seek_to_beginning()
    assert sorted(next(consumer).value for _ in VALUES) == sorted(VALUES)
    consumer.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("library", "restarting"),
    # A slow kafka-python joins twice, which would rebalance if it were leader: here it follows.
    [("confluent", 0), ("confluent", 1), ("kafka-python", 1), ("aiokafka", 0)],
)
def test_the_restart_of_a_static_member_causes_no_rebalance(
    library: str,
    restarting: int,
    broker: BrokerProcess,
    tmp_path: Path,
    show_on_failure: Callable[[str, Callable[[], str]], None],
) -> None:
    everything = frozenset((TOPIC, number) for number in range(PARTITIONS))
    members = MemberProcesses(
        broker.bootstrap,
        tmp_path / "members",
        group="fleet",
        topic=TOPIC,
        session_timeout_ms=45_000,
    )
    show_on_failure("members", members.diagnostics)
    with members:
        members.start(library, instance="0")
        members.until_shared(everything)
        members.start(library, instance="1")
        members.until_shared(everything)
        gone, other = members.all[restarting], members.all[1 - restarting]
        share, noticed = gone.owned, other.count("assigned") + other.count("revoked")
        members.kill(gone)
        (back,) = members.start(library, instance=str(restarting))
        members.until(lambda: back.owned == share, "the restarted member has its partitions")
        assert other.count("assigned") + other.count("revoked") == noticed
    assert members.two_owners() == []
