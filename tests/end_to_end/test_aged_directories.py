"""PyKBroker and Apache Kafka continue each other's data directories after retention and compaction.

The topics have all cleanup policies, with committed and aborted transactions.
"""

from __future__ import annotations

import shutil
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic  # the module that defines it

from compat.apache import ApacheKafka
from compat.apache.apache_kafka import SINGLE_NODE
from compat.broker_process import BrokerProcess

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from compat.apache import ApacheTools

    AnyBroker = ApacheKafka | BrokerProcess

pytestmark = [pytest.mark.slow, pytest.mark.oracle]

COMMON = {"segment.ms": "50", "min.cleanable.dirty.ratio": "0.01", "delete.retention.ms": "1"}
TOPICS = {
    "compacted": COMMON | {"cleanup.policy": "compact"},
    "both": COMMON | {"cleanup.policy": "compact,delete"},
    "deleted": COMMON | {"cleanup.policy": "delete", "retention.bytes": "20000"},
}
COMPACTED = ("compacted", "both")
AGEING = SINGLE_NODE | {
    "log.cleaner.backoff.ms": "50",
    "log.retention.check.interval.ms": "200",
    "log.initial.task.delay.ms": "100",
    "log.index.interval.bytes": "200",
}
WITHOUT_CLEANUP = AGEING | {
    "log.cleaner.backoff.ms": "3600000",
    "log.retention.check.interval.ms": "3600000",
    "log.initial.task.delay.ms": "3600000",  # else retention changes the records
}
KEYS = 10
WAIT_SECONDS_MAX = 60.0

Table = dict[bytes, bytes]


class Read(NamedTuple):
    offset: int
    key: bytes
    value: bytes | None


def apache(data: Path, settings: dict[str, str]) -> AnyBroker:
    return ApacheKafka(data, heap="256m", settings=settings)


def pykbroker(data: Path, settings: dict[str, str]) -> AnyBroker:
    return BrokerProcess(data, settings=settings)


class Model:
    """The expected last values of compacted topics, from committed records."""

    def __init__(self) -> None:
        self.tables: dict[str, Table] = {topic: {} for topic in TOPICS}
        self.number = 0

    def age(self, broker: AnyBroker) -> None:
        """Produces, commits and aborts, slowly enough for segments to roll."""
        plain = Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": True})
        transactional = Producer(
            {"bootstrap.servers": broker.bootstrap, "transactional.id": "ageing"}
        )
        transactional.init_transactions(WAIT_SECONDS_MAX)
        for number in range(12):
            self.write(plain)
            assert plain.flush(WAIT_SECONDS_MAX) == 0
            transactional.begin_transaction()
            self.write(transactional, is_committed=number % 3 > 0)
            transactional.flush(WAIT_SECONDS_MAX)
            if number % 3:
                transactional.commit_transaction(WAIT_SECONDS_MAX)
            else:
                transactional.abort_transaction(WAIT_SECONDS_MAX)
            time.sleep(0.06)  # longer than segment.ms
        wait_until_aged(broker)

    def write(self, producer: Producer, *, is_committed: bool = True) -> None:
        for topic, table in self.tables.items():
            for _ in range(20):
                self.number += 1
                key = b"key-%d" % (self.number * 7 % KEYS)
                value = None if self.number % 11 == 0 else b"%d " % self.number + b"." * 50
                producer.produce(topic, key=key, value=value)
                if not is_committed:
                    continue
                table.pop(key, None)
                if value is not None:
                    table[key] = value


def create_topics(broker: AnyBroker) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    new = [NewTopic(name, 1, 1, config=config) for name, config in TOPICS.items()]
    for future in admin.create_topics(new, operation_timeout=WAIT_SECONDS_MAX).values():
        future.result(WAIT_SECONDS_MAX)


def wait_until_aged(broker: AnyBroker) -> None:
    """Waits until all sealed segments are compacted and old segments are deleted."""
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while not (is_compacted(broker) and min(base_offsets(broker, "deleted"))):
        assert time.monotonic() < deadline, "compaction or retention did not run"
        time.sleep(0.1)


def is_compacted(broker: AnyBroker) -> bool:
    checkpoint = broker.data_dir / "cleaner-offset-checkpoint"
    lines = checkpoint.read_text().splitlines() if checkpoint.exists() else []
    return all(f"{it} 0 {max(base_offsets(broker, it))}" in lines for it in COMPACTED)


def base_offsets(broker: AnyBroker, topic: str) -> list[int]:
    return [int(path.stem) for path in (broker.data_dir / f"{topic}-0").glob("*.log")]


def committed(broker: AnyBroker) -> dict[str, list[Read]]:
    return {topic: committed_records(broker, topic) for topic in TOPICS}


def committed_records(broker: AnyBroker, topic: str) -> list[Read]:
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "unused",
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = []
    while (message := consumer.poll(WAIT_SECONDS_MAX)) is not None:
        error = message.error()
        if error is None:
            found.append(read(message))
            continue
        assert error.code() == KafkaError._PARTITION_EOF, error
        consumer.close()
        return found
    raise AssertionError("timed out before the end of the log")


def read(message: Any) -> Read:
    return Read(message.offset(), message.key(), message.value())


def table_of(records: list[Read]) -> Table:
    table: Table = {}
    for record in records:
        table.pop(record.key, None)
        if record.value is not None:
            table[record.key] = record.value
    return table


def expect_the_tables(broker: AnyBroker, model: Model) -> None:
    records = committed(broker)
    for topic in COMPACTED:
        assert table_of(records[topic]) == model.tables[topic]
        assert len(records[topic]) < model.number / 20
    newest = records["deleted"][-1]
    assert newest.value is None or newest.value == model.tables["deleted"][newest.key]


@pytest.mark.parametrize("is_clean", [True, False], ids=["clean", "unclean"])
@pytest.mark.parametrize(
    ("first", "second"),
    [(apache, pykbroker), (pykbroker, apache)],
    ids=["from-apache", "to-apache"],
)
def test_the_other_broker_serves_the_same_records_and_continues(
    tmp_path: Path,
    apache_tools: ApacheTools,
    first: Callable[[Path, dict[str, str]], AnyBroker],
    second: Callable[[Path, dict[str, str]], AnyBroker],
    *,
    is_clean: bool,
) -> None:
    model = Model()
    with first(tmp_path / "first", AGEING) as first_broker:
        create_topics(first_broker)
        model.age(first_broker)
    with first(tmp_path / "first", WITHOUT_CLEANUP) as first_broker:
        expect_the_tables(first_broker, model)
        before = committed(first_broker)
        if not is_clean:
            first_broker.kill()
    copy = shutil.copytree(tmp_path / "first", tmp_path / "second")
    with second(copy, WITHOUT_CLEANUP) as second_broker:
        assert committed(second_broker) == before
    with second(copy, AGEING) as second_broker:
        model.age(second_broker)
        expect_the_tables(second_broker, model)
    for topic in TOPICS:
        dump = apache_tools.dump_log(*(copy / f"{topic}-0").glob("*.log"))
        assert "isvalid: false" not in dump
        indexes = [it for it in (copy / f"{topic}-0").glob("*index") if it.stat().st_size]
        dump = apache_tools.dump_log(*indexes, options=["--index-sanity-check"])
        assert "fail" not in dump.lower(), dump
    back = shutil.copytree(copy, tmp_path / "back")
    with first(back, AGEING) as returned:
        model.age(returned)
        expect_the_tables(returned, model)
