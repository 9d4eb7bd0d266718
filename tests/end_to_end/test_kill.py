"""`kill -9` at any moment loses nothing that was acknowledged, and nothing comes twice.

`PYKBROKER_KILLS=500 pytest tests/end_to_end/test_kill.py` kills as often as one wishes;
`PYKBROKER_SEED` repeats a run.
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
from tests.apis.asked import created, new_topic
from tests.apis.conversations.configurations import SET, altered, described
from tests.apis.wire import Closed, Wire
from tests.end_to_end.load import Load, LoyalProducer, Reader, create_topic

if TYPE_CHECKING:
    from compat.broker_process import BrokerProcess
    from tests.end_to_end.conftest import StartBroker

KILLS = int(os.environ.get("PYKBROKER_KILLS", "30"))
SEED = int(os.environ.get("PYKBROKER_SEED", str(time.time_ns() % 1_000_000)))
SMALL_SEGMENTS = {"log.roll.ms": 30, "log.index.interval.bytes": 500}
PARTITIONS = 3


def kill_at_some_moment(broker: BrokerProcess, chance: Random, within_seconds: float) -> None:
    time.sleep(chance.uniform(0, within_seconds))  # the moment is what is tested
    broker.kill()


def start_after_a_kill(broker: BrokerProcess, chance: Random) -> None:
    """Now and then the start itself is killed, at any moment of the recovery."""
    while chance.random() < 0.25:
        broker.start(wait=False)
        kill_at_some_moment(broker, chance, 0.4)
    broker.start()


def test_every_acknowledged_record_is_there_in_order_and_once(start_broker: StartBroker) -> None:
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
        kill_at_some_moment(broker, chance, 0.2)
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
    """Creates, deletes and configures topics, and remembers what was confirmed."""

    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self.count = 0
        self.retention_ms: dict[str, str | None] = {}
        self.deleted: set[str] = set()
        self.under_way: str | None = None
        """The topic that may be as it was before or after, for no answer came."""

    def run(self, port: int) -> None:
        try:
            with Wire(port) as wire:
                while True:
                    self.do_something(wire)
        except Closed:
            return

    def do_something(self, wire: Wire) -> None:
        act = self.chance.choice((self.create, self.create, self.delete, self.configure))
        if act != self.create and not self.retention_ms:
            act = self.create
        act(wire)
        self.under_way = None

    def create(self, wire: Wire) -> None:
        self.count += 1
        self.under_way = name = f"churn-{self.count}"
        answer = wire.ask(created(new_topic(name, self.chance.randint(1, 3))), 7)
        assert answer.topics[0].error_code == ErrorCode.NONE, answer
        self.retention_ms[name] = None

    def delete(self, wire: Wire) -> None:
        self.under_way = name = self.chance.choice(list(self.retention_ms))
        request = DeleteTopicsRequest(topic_names=[name], timeout_ms=5000)
        answer = wire.ask(request, 5)
        assert answer.responses[0].error_code == ErrorCode.NONE, answer
        del self.retention_ms[name]
        self.deleted.add(name)

    def configure(self, wire: Wire) -> None:
        self.under_way = name = self.chance.choice(list(self.retention_ms))
        value = str(self.chance.randint(10**9, 10**10))
        answer = wire.ask(altered(name, ("retention.ms", SET, value)), 1)
        assert answer.responses[0].error_code == ErrorCode.NONE, answer
        self.retention_ms[name] = value

    def hold_to_it(self, port: int) -> None:
        """All that was confirmed is so."""
        with Wire(port) as wire:
            rows = wire.ask(MetadataRequest(topics=None), 12).topics
            there = {row.name for row in rows}
            assert all(row.error_code == ErrorCode.NONE and row.partitions for row in rows)
            self.settle(wire, there)
            assert there == set(self.retention_ms), "topics are not those that were confirmed"
            for name in self.chance.sample(sorted(there), min(5, len(there))):
                assert retention_of(wire, name) == self.retention_ms[name]

    def settle(self, wire: Wire, there: set[str]) -> None:
        """What came of the request that got no answer; before or after, but nothing between."""
        name, self.under_way = self.under_way, None
        if name is None:
            return
        if name in there:
            self.retention_ms[name] = retention_of(wire, name)
        else:
            self.retention_ms.pop(name, None)


def retention_of(wire: Wire, name: str) -> str | None:
    """What the topic itself says; None where it leaves it to the broker."""
    answer = wire.ask(described(name, keys=["retention.ms"]), 4).results[0]
    assert answer.error_code == ErrorCode.NONE, answer
    (row,) = answer.configs
    return row.value if row.config_source == 1 else None


def test_confirmed_topics_and_configurations_are_there(start_broker: StartBroker) -> None:
    print(f"PYKBROKER_SEED={SEED} PYKBROKER_KILLS={KILLS}")
    chance = Random(SEED)
    broker = start_broker()
    administrator = Administrator(chance)
    for _ in range(KILLS // 3):
        thread = threading.Thread(target=administrator.run, args=(broker.port,))
        thread.start()
        kill_at_some_moment(broker, chance, 0.2)
        thread.join(30)
        start_after_a_kill(broker, chance)
        administrator.hold_to_it(broker.port)
    assert administrator.deleted
