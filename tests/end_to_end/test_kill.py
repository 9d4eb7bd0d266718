"""`kill -9` at any moment loses no acknowledged record and duplicates none.

PYKBROKER_KILLS sets the number of kills, PYKBROKER_SEED repeats a run.
"""

from __future__ import annotations

import os
import threading
import time
from random import Random
from typing import TYPE_CHECKING

from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.delete_topics import DeleteTopicsRequest
from pykbroker_protocol.messages.metadata import MetadataRequest
from tests.apis.conversations.configurations import SET, altered, described
from tests.apis.request_builders import created, new_topic
from tests.apis.wire import Closed, Wire
from tests.end_to_end.load import Load, LoyalProducer, Reader, create_topic

if TYPE_CHECKING:
    from compat.broker_process import BrokerProcess
    from tests.end_to_end.conftest import StartBroker

KILLS = int(os.environ.get("PYKBROKER_KILLS", "30"))
SEED = int(os.environ.get("PYKBROKER_SEED", str(time.time_ns() % 1_000_000)))
SMALL_SEGMENTS = {"log.roll.ms": 30, "log.index.interval.bytes": 500}
PARTITIONS = 3


def kill_at_a_random_moment(broker: BrokerProcess, chance: Random, within_seconds: float) -> None:
    time.sleep(chance.uniform(0, within_seconds))  # the moment is what is tested
    broker.kill()


def start_after_a_kill(broker: BrokerProcess, chance: Random) -> None:
    """Starts the broker; sometimes kills the start itself during recovery."""
    while chance.random() < 0.25:
        broker.start(wait=False)
        kill_at_a_random_moment(broker, chance, 0.4)
    broker.start()


def test_every_acknowledged_record_survives_in_order_and_once(start_broker: StartBroker) -> None:
    print(f"PYKBROKER_SEED={SEED} PYKBROKER_KILLS={KILLS}")
    chance = Random(SEED)
    broker = start_broker(settings=SMALL_SEGMENTS)
    create_topic(broker, "t", PARTITIONS)
    producers = [
        LoyalProducer(
            number,
            "t",
            number % PARTITIONS,
            acks=chance.choice((1, -1)),
            is_idempotent=number % 2 == 0,
            chance=Random(chance.random()),
        )
        for number in range(2 * PARTITIONS)
    ]
    readers = [
        Reader("t", index, [it for it in producers if it.partition == index])
        for index in range(PARTITIONS)
    ]
    load = Load(producers)
    for _ in range(KILLS):
        load.start(broker.port)
        kill_at_a_random_moment(broker, chance, 0.2)
        load.join()
        start_after_a_kill(broker, chance)
        for reader in readers:
            reader.read_on(broker)
            reader.expect_all_that_was_acknowledged()
    for reader in readers:
        reader.read_again(broker)
        reader.expect_all_that_was_acknowledged()
    assert all(producer.acknowledged for producer in producers)


class Administrator:
    """Creates, deletes and configures topics, and records the acknowledged changes."""

    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self.count = 0
        self.retention_ms: dict[str, str | None] = {}
        self.deleted: set[str] = set()
        self.unanswered: str | None = None
        """Topic of a request without a response, which may be in the old or the new state."""

    def run(self, port: int) -> None:
        try:
            with Wire(port) as wire:
                while True:
                    self.change_a_topic(wire)
        except Closed:
            return

    def change_a_topic(self, wire: Wire) -> None:
        act = self.chance.choice((self.create, self.create, self.delete, self.configure))
        if act != self.create and not self.retention_ms:
            act = self.create
        act(wire)
        self.unanswered = None

    def create(self, wire: Wire) -> None:
        self.count += 1
        self.unanswered = name = f"churn-{self.count}"
        answer = wire.ask(created(new_topic(name, self.chance.randint(1, 3))), 7)
        assert answer.topics[0].error_code == ErrorCode.NONE, answer
        self.retention_ms[name] = None

    def delete(self, wire: Wire) -> None:
        self.unanswered = name = self.chance.choice(list(self.retention_ms))
        request = DeleteTopicsRequest(topic_names=[name], timeout_ms=5000)
        answer = wire.ask(request, 5)
        assert answer.responses[0].error_code == ErrorCode.NONE, answer
        del self.retention_ms[name]
        self.deleted.add(name)

    def configure(self, wire: Wire) -> None:
        self.unanswered = name = self.chance.choice(list(self.retention_ms))
        value = str(self.chance.randint(10**9, 10**10))
        answer = wire.ask(altered(name, ("retention.ms", SET, value)), 1)
        assert answer.responses[0].error_code == ErrorCode.NONE, answer
        self.retention_ms[name] = value

    def check(self, port: int) -> None:
        """Checks that the broker has exactly the acknowledged state."""
        with Wire(port) as wire:
            rows = wire.ask(MetadataRequest(topics=None), 12).topics
            existing = {row.name for row in rows}
            assert all(row.error_code == ErrorCode.NONE and row.partitions for row in rows)
            self.adopt(wire, existing)
            assert existing == set(self.retention_ms), "topics differ from the acknowledged ones"
            for name in self.chance.sample(sorted(existing), min(5, len(existing))):
                assert retention_of(wire, name) == self.retention_ms[name]

    def adopt(self, wire: Wire, existing: set[str]) -> None:
        """Adopts the state of the topic of the unanswered request."""
        name, self.unanswered = self.unanswered, None
        if name is None:
            return
        if name in existing:
            self.retention_ms[name] = retention_of(wire, name)
        else:
            self.retention_ms.pop(name, None)


def retention_of(wire: Wire, name: str) -> str | None:
    """Returns the topic's own retention.ms; None if it uses the broker default."""
    answer = wire.ask(described(name, keys=["retention.ms"]), 4).results[0]
    assert answer.error_code == ErrorCode.NONE, answer
    (row,) = answer.configs
    return row.value if row.config_source == 1 else None


def test_acknowledged_topics_and_configurations_survive(start_broker: StartBroker) -> None:
    print(f"PYKBROKER_SEED={SEED} PYKBROKER_KILLS={KILLS}")
    chance = Random(SEED)
    broker = start_broker()
    administrator = Administrator(chance)
    for _ in range(KILLS // 3):
        thread = threading.Thread(target=administrator.run, args=(broker.port,))
        thread.start()
        kill_at_a_random_moment(broker, chance, 0.2)
        thread.join(30)
        start_after_a_kill(broker, chance)
        administrator.check(broker.port)
    assert administrator.deleted
