"""`kill -9` during transactions: consumers see each completely or not at all.

Transactions with an acknowledged commit are visible. PYKBROKER_KILLS sets the number of kills,
PYKBROKER_SEED repeats a run.
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from random import Random
from typing import TYPE_CHECKING

from compat.apache.apache_kafka import SINGLE_NODE
from pykbroker_protocol.errors import ErrorCode
from tests.apis.transactions.transcript import (
    Producer,
    TransactionTranscript,
    first_code,
    produce_code,
)
from tests.apis.wire import Closed
from tests.end_to_end.transactions.reading import committed_values

if TYPE_CHECKING:
    from compat.broker_process import BrokerProcess
    from tests.apis.transcript import Topic
    from tests.end_to_end.conftest import StartBroker

KILLS = int(os.environ.get("PYKBROKER_KILLS", "12"))
SEED = int(os.environ.get("PYKBROKER_SEED", str(time.time_ns() % 1_000_000)))
PARTITIONS = range(3)
PRODUCERS = 2


class Writer:
    """Writes transactions one after the other, each with its number in every partition."""

    def __init__(self, name: str, version: int, chance: Random) -> None:
        self.name = name
        self.version = version
        self.chance = chance
        self.number = 0
        self.committed: set[bytes] = set()
        self.not_committed: set[bytes] = set()

    def run(self, port: int, topic: Topic) -> None:
        """Writes until the broker ends; a transaction without a response may have either end."""
        try:
            client = TransactionTranscript(port, "kill", time.time_ns() // 1_000_000)
        except Closed:
            return
        try:
            producer = client.producer(self.name, version=self.version)
            while True:
                self.write(producer, topic)
        except Closed:
            return
        finally:
            client.close()

    def write(self, producer: Producer, topic: Topic) -> None:
        self.number += 1
        value = f"{self.name}-{self.number}".encode()
        client = producer.broker
        answer = client.quietly(producer.addition(topic, PARTITIONS), 3)
        assert not first_code(answer), answer
        for partition in PARTITIONS:
            asked = producer.writing(topic, partition=partition, value=value)
            assert not produce_code(client.quietly(asked, 11))
        producer.sequence += 1
        commits = self.chance.random() < 0.8
        answer = client.quietly(producer.ending(committed=commits), self.version)
        assert answer.error_code == ErrorCode.NONE, answer
        (self.committed if commits else self.not_committed).add(value)
        if self.version >= 5:
            producer.id, producer.epoch = answer.producer_id, answer.producer_epoch
            producer.sequence = 0


def test_consumers_see_transactions_completely_or_not_at_all(start_broker: StartBroker) -> None:
    print(f"PYKBROKER_SEED={SEED} PYKBROKER_KILLS={KILLS}")
    chance = Random(SEED)
    broker = start_broker(settings=SINGLE_NODE)
    client = TransactionTranscript(broker.port, "kill", time.time_ns() // 1_000_000)
    topic = client.topic(partitions=len(PARTITIONS))
    for number in range(PRODUCERS):
        client.producer(f"writer{number}")
    client.close()
    writers = [
        Writer(f"writer{number}", version, Random(chance.random()))
        for number, version in zip(range(PRODUCERS), (4, 5), strict=True)
    ]
    for _ in range(KILLS):
        threads = [
            threading.Thread(target=it.run, args=(broker.port, topic), name=it.name)
            for it in writers
        ]
        for thread in threads:
            thread.start()
        time.sleep(chance.uniform(0.02, 0.2))  # a random moment
        broker.kill()
        for thread in threads:
            thread.join()
        broker.start()
        expect_whole(broker, topic, writers)
    assert all(it.committed and it.not_committed for it in writers)


def expect_whole(broker: BrokerProcess, topic: Topic, writers: list[Writer]) -> None:
    client = TransactionTranscript(broker.port, "kill", time.time_ns() // 1_000_000)
    for writer in writers:
        client.producer(writer.name, version=writer.version)  # ends an open transaction
    seen = [committed_values(client.wire, topic.name, it) for it in PARTITIONS]
    client.close()
    assert max(Counter(seen[0]).values(), default=0) <= 1
    assert {frozenset(it) for it in seen} == {frozenset(seen[0])}
    assert [len(it) for it in seen] == [len(seen[0])] * len(PARTITIONS)
    for writer in writers:
        assert writer.committed <= set(seen[0])
        assert not writer.not_committed & set(seen[0])
