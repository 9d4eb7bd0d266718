"""Power losses under a real broker on ext4 and xfs; needs root and loop devices.

PYKBROKER_POWER_CUTS sets the number of cuts (`make soak` sets 20). PYKBROKER_SEED repeats the load,
but not the moment of the cut.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from tests.end_to_end.load import Load, LoyalProducer, Reader, create_topic
from tests.end_to_end.loop_disk import MAKE, loop_disk, missing_requirement
from tests.end_to_end.transacting import (
    PARTITIONS,
    TIMEOUT_SECONDS,
    expect_that_transactions_go_on,
    read_to_the_end,
    transact,
    transactional,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from compat.broker_process import BrokerProcess
    from tests.end_to_end.conftest import StartBroker
    from tests.end_to_end.loop_disk import LoopDisk

CUTS = int(os.environ.get("PYKBROKER_POWER_CUTS", "1"))
SEED = int(os.environ.get("PYKBROKER_SEED", str(time.time_ns() % 1_000_000)))
LOAD_SECONDS_MAX = 2.0 if CUTS < 5 else 6.0
SMALL_SEGMENTS = {
    "log.segment.bytes": 1_048_576,
    "log.roll.ms": 100,
    "log.index.interval.bytes": 500,
    "offsets.topic.num.partitions": 2,
    "transaction.state.log.num.partitions": 2,
}
FLUSHES_EACH_WRITE = {"log.flush.interval.messages": 1}
# `commit=1`: the names of new files survive, their content is not even allocated yet.
OPTIONS = {"ext4": ("commit=1",), "xfs": ()}


@pytest.fixture(params=MAKE)
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LoopDisk]:
    reason = missing_requirement(request.param, tmp_path / "try")
    if reason:
        pytest.skip(reason)
    with loop_disk(tmp_path / "disk", request.param, *OPTIONS[request.param]) as disk:
        yield disk


def cut_power(disk: LoopDisk, broker: BrokerProcess) -> None:
    """Cuts the power while the broker is suspended, so that it cannot react."""
    os.kill(broker.pid, signal.SIGSTOP)
    disk.cut_power()
    broker.kill()
    disk.unmount()
    disk.mount()


@dataclass
class Generation:
    """The producers between two power losses."""

    number: int
    chance: Random
    producers: list[LoyalProducer] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.producers = [
            LoyalProducer(
                self.number * 100 + index,
                "t",
                index % PARTITIONS,
                acks=self.chance.choice((1, -1)),
                is_idempotent=index % 2 == 0,
                chance=Random(self.chance.random()),
            )
            for index in range(2 * PARTITIONS)
        ]


class Transactions:
    """Runs transactions with one transactional id until the broker ends."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.committed: list[bytes] = []
        self.is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def start(self) -> None:
        self._thread.start()

    def join(self) -> None:
        self.is_over.set()
        self._thread.join(TIMEOUT_SECONDS)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        from confluent_kafka import KafkaException

        producer = transactional(self.bootstrap)
        try:
            producer.init_transactions(TIMEOUT_SECONDS)
            while not self.is_over.is_set():
                self._transact(producer)
        except KafkaException:
            pass  # the broker was killed

    def _transact(self, producer: Any) -> None:
        value = b"transaction %d" % len(self.committed)
        transact(producer, value)
        if len(self.committed) % 3 == 1:
            producer.abort_transaction(2)
        else:
            producer.commit_transaction(2)
        self.committed.append(value)


def load_and_cut(disk: LoopDisk, broker: BrokerProcess, generation: Generation) -> Transactions:
    load, transactions = Load(generation.producers), Transactions(broker.bootstrap)
    load.start(broker.port)
    transactions.start()
    time.sleep(generation.chance.uniform(1.0, LOAD_SECONDS_MAX))  # the moment is what is tested
    cut_power(disk, broker)
    transactions.is_over.set()
    load.join()
    transactions.join()
    return transactions


def expect_readable_logs(broker: BrokerProcess) -> None:
    for topic in ("t", "tx"):
        for isolation in ("read_uncommitted", "read_committed"):
            read_to_the_end(broker.bootstrap, topic, isolation)


@pytest.mark.slow
def test_flushed_writes_survive_power_cuts(disk: LoopDisk, start_broker: StartBroker) -> None:
    chance = Random(SEED)
    print(f"PYKBROKER_SEED={SEED} PYKBROKER_POWER_CUTS={CUTS}")
    broker = start_broker(data=disk.mount_point, settings=SMALL_SEGMENTS | FLUSHES_EACH_WRITE)
    create_topic(broker, "t", PARTITIONS)
    create_topic(broker, "tx", PARTITIONS)
    producers: list[LoyalProducer] = []
    for number in range(CUTS):
        generation = Generation(number, chance)
        producers += generation.producers
        load_and_cut(disk, broker, generation)
        broker.start()
        for index in range(PARTITIONS):
            reader = Reader("t", index, [it for it in producers if it.partition == index])
            reader.read_again(broker)
            reader.expect_all_that_was_acknowledged()
        expect_readable_logs(broker)
        expect_that_transactions_go_on(broker, b"after cut %d" % number)


@pytest.mark.slow
def test_unflushed_logs_keep_a_readable_prefix_after_power_cuts(
    disk: LoopDisk, start_broker: StartBroker
) -> None:
    chance = Random(SEED)
    print(f"PYKBROKER_SEED={SEED} PYKBROKER_POWER_CUTS={CUTS}")
    broker = start_broker(data=disk.mount_point, settings=SMALL_SEGMENTS)
    create_topic(broker, "t", PARTITIONS)
    create_topic(broker, "tx", PARTITIONS)
    for number in range(CUTS):
        generation = Generation(number, chance)
        load_and_cut(disk, broker, generation)
        broker.start()
        for index in range(PARTITIONS):
            reader = Reader("t", index, generation.producers)
            reader.read_again(broker)
            for producer in generation.producers:
                held = [it for name, it in reader.offsets if name == producer.number]
                assert held == list(range(len(held))), "records are missing in the middle"
        expect_readable_logs(broker)
        expect_that_transactions_go_on(broker, b"after cut %d" % number)
