"""A compacted topic keeps the last committed value of each key under `kill -9`."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from pykbroker_protocol.errors import ErrorCode
from tests.apis.request_builders import created, new_topic
from tests.apis.wire import Wire

if TYPE_CHECKING:
    from compat.broker_process import BrokerProcess
    from tests.end_to_end.conftest import StartBroker

KILLS = int(os.environ.get("PYKBROKER_KILLS", "8"))
SEED = int(os.environ.get("PYKBROKER_SEED", str(time.time_ns() % 1_000_000)))
TOPIC = "table"
KEYS = 20
# Compaction runs all the time and slowly enough to be killed in the middle.
BUSY_CLEANER = {"log.cleaner.backoff.ms": 5, "log.cleaner.io.max.bytes.per.second": 3_000_000}
# Reconnects quickly and logs nothing.
CLIENT = {"reconnect.backoff.ms": 10, "reconnect.backoff.max.ms": 100, "log_level": 0}
COMPACTED = {
    "cleanup.policy": "compact",
    "segment.ms": "60",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "100",
}
WAIT_SECONDS_MAX = 30.0
PAUSE_SECONDS = 0.02  # so that the slow cleaner keeps up
_NOT_FOUND: set[bytes | None] = {None}

Table = dict[bytes, bytes]


@dataclass(slots=True)
class Writer:
    """Writes values and tombstones to its own keys."""

    name: str
    bootstrap: str
    chance: Random
    may_be: dict[bytes, set[bytes | None]] = field(default_factory=dict)  # possible values of a key
    written: int = 0
    failure: BaseException | None = None
    stopping: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        try:
            self.write()
        except BaseException as failure:
            self.failure = failure
            raise

    def write(self) -> None:
        """Writes until `stopping` is set and all records are acknowledged."""
        producer = self.producer({"enable.idempotence": True})
        while not self.stopping.wait(PAUSE_SECONDS):
            for _ in range(20):
                key, value = self.next_pair()
                producer.produce(TOPIC, key=key, value=value, on_delivery=self.delivered)
            producer.flush(0.01)
        assert producer.flush(WAIT_SECONDS_MAX) == 0

    def producer(self, settings: dict[str, Any]) -> Producer:
        return Producer({"bootstrap.servers": self.bootstrap, **CLIENT, **settings})

    def delivered(self, error: KafkaError | None, message: Any) -> None:
        assert error is None, error
        self.may_be[message.key()] = {message.value()}

    def next_pair(self) -> tuple[bytes, bytes | None]:
        self.written += 1
        key = f"{self.name}-{self.chance.randrange(KEYS)}".encode()
        value = b"%d " % self.written + b"." * 300
        return key, None if self.chance.random() < 0.2 else value


class TransactionalWriter(Writer):
    """Writes in transactions and aborts some; a failed one may be committed or aborted."""

    def write(self) -> None:
        while not self.stopping.is_set():
            producer = self.producer({"transactional.id": self.name})
            try:
                producer.init_transactions(WAIT_SECONDS_MAX)
                while not self.stopping.wait(PAUSE_SECONDS):
                    self.write_transaction(producer)
            except KafkaException:
                continue  # fenced or failed: use a new producer
        last = self.producer({"transactional.id": self.name})
        last.init_transactions(WAIT_SECONDS_MAX)  # ends an open transaction

    def write_transaction(self, producer: Producer) -> None:
        pairs = dict(self.next_pair() for _ in range(10))
        producer.begin_transaction()
        for key, value in pairs.items():
            producer.produce(TOPIC, key=key, value=value)
        if self.chance.random() < 0.3:
            producer.flush(WAIT_SECONDS_MAX)
            producer.abort_transaction(WAIT_SECONDS_MAX)
            return
        for key, value in pairs.items():
            self.may_be[key] = self.may_be.get(key, _NOT_FOUND) | {value}
        producer.commit_transaction(WAIT_SECONDS_MAX)
        self.may_be.update((key, {value}) for key, value in pairs.items())


def consumed(bootstrap: str) -> tuple[Table, int]:
    """Reads the topic with read_committed; returns the last values and the record count."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        }
    )
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    table: Table = {}
    count = 0
    last_offset = -1
    while (message := consumer.poll(WAIT_SECONDS_MAX)) is not None:
        error = message.error()
        if error is not None:
            assert error.code() == KafkaError._PARTITION_EOF, error
            consumer.close()
            return table, count
        offset = message.offset()
        assert offset is not None
        assert offset > last_offset
        last_offset = offset
        count += 1
        key, value = message.key(), message.value()
        assert isinstance(key, bytes)
        if value is None:
            table.pop(key, None)
        else:
            table[key] = bytes(value)
    raise AssertionError("timed out before the end of the log")


def is_in_the_middle(broker: BrokerProcess) -> bool:
    files = {path.suffix for path in (broker.data_dir / f"{TOPIC}-0").iterdir()}
    return bool(files & {".cleaned", ".swap"})


def wait_until_in_the_middle(broker: BrokerProcess) -> None:
    """Waits at most 2 s, because compaction may have nothing to do."""
    deadline = time.monotonic() + 2
    while not is_in_the_middle(broker) and time.monotonic() < deadline:
        time.sleep(0.001)


def wait_until_clean(broker: BrokerProcess) -> None:
    """Waits until all sealed segments are compacted."""
    deadline = time.monotonic() + 2 * WAIT_SECONDS_MAX
    checkpoint = broker.data_dir / "cleaner-offset-checkpoint"
    logs = broker.data_dir / f"{TOPIC}-0"
    while True:
        active = max(int(path.stem) for path in logs.glob("*.log"))
        if checkpoint.exists() and f"{TOPIC} 0 {active}\n" in checkpoint.read_text():
            return
        assert time.monotonic() < deadline, "compaction did not finish"
        time.sleep(0.05)


@pytest.mark.slow
def test_the_last_value_of_each_key_survives_kills_in_the_middle_of_compaction(
    start_broker: StartBroker,
) -> None:
    print(f"PYKBROKER_SEED={SEED} PYKBROKER_KILLS={KILLS}")
    chance = Random(SEED)
    broker = start_broker(settings=BUSY_CLEANER)
    with Wire(broker.port) as wire:
        topic = new_topic(TOPIC, 1, configs=tuple(COMPACTED.items()))
        (made,) = wire.ask(created(topic), 7).topics
        assert made.error_code == ErrorCode.NONE, made
    writers = [
        kind(f"{kind.__name__}-{number}", broker.bootstrap, Random(chance.random()))
        for kind in (Writer, TransactionalWriter)
        for number in range(2)
    ]
    threads = [threading.Thread(target=it.run, daemon=True) for it in writers]
    for thread in threads:
        thread.start()
    killed_in_the_middle = 0
    for _ in range(KILLS):
        time.sleep(chance.uniform(0.3, 1.5))  # the moment is what is tested
        if chance.random() < 0.7:
            wait_until_in_the_middle(broker)
        broker.kill()
        killed_in_the_middle += is_in_the_middle(broker)
        broker.start()
    for writer, thread in zip(writers, threads, strict=True):
        writer.stopping.set()
        thread.join(4 * WAIT_SECONDS_MAX)
        assert not thread.is_alive()
        assert writer.failure is None
    wait_until_clean(broker)

    table, count = consumed(broker.bootstrap)
    for writer in writers:
        assert writer.may_be
        for key, values in writer.may_be.items():
            assert table.get(key) in values, (key, values)
    assert count < sum(it.written for it in writers) / 2
    assert killed_in_the_middle
    assert "compaction failed" not in broker.log()
    broker.stop()
    broker.start()
    assert consumed(broker.bootstrap)[0] == table
