"""A power loss removes the end of `__transaction_state` or of a partition; ids stay usable."""

from __future__ import annotations

import shutil
import time
from typing import TYPE_CHECKING

import pytest

from compat.apache.apache_kafka import SINGLE_NODE
from compat.broker_process import BrokerProcess
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.records.batch import iterate_batches
from tests.apis.transactions.transcript import NOT_YET, TransactionTranscript, produce_code
from tests.end_to_end.load import create_topic
from tests.end_to_end.transacting import (
    PARTITIONS,
    TIMEOUT_SECONDS,
    expect_that_transactions_go_on,
    read_to_the_end,
    transact,
    transactional,
)
from tests.end_to_end.transactions.reading import committed_values

if TYPE_CHECKING:
    from pathlib import Path

    from tests.end_to_end.conftest import StartBroker

SETTINGS = SINGLE_NODE | {"transaction.state.log.num.partitions": 1}
STATE = "__transaction_state-0"
CANNOT_COMMIT = (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_TXN_STATE)
ALL = 1_000
LOST = [
    (STATE, 1),
    (STATE, 3),
    (STATE, 7),
    (STATE, 12),
    (STATE, ALL),
    ("tx-0", 1),
    ("tx-0", 2),
    ("tx-0", ALL),
]
"""A folder and the number of batches that its log loses."""


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data of a broker with two commits, an abort, a commit and an open transaction."""
    data = tmp_path_factory.mktemp("lost") / "data"
    broker = BrokerProcess(data, settings=SETTINGS)
    with broker:
        create_topic(broker, "tx", PARTITIONS)
        for number in range(4):
            producer = transactional(broker.bootstrap)  # each instance has its own epoch
            producer.init_transactions(TIMEOUT_SECONDS)
            transact(producer, b"%d" % number)
            if number == 2:
                producer.abort_transaction(TIMEOUT_SECONDS)
            else:
                producer.commit_transaction(TIMEOUT_SECONDS)
        transact(producer, b"open")
        producer.flush(TIMEOUT_SECONDS)
        broker.kill()
        producer.purge()
    return data


def lose(log: Path, batches: int) -> None:
    ends = [0]
    for batch in iterate_batches(log.read_bytes()):
        ends.append(ends[-1] + batch.size_bytes)
    assert len(ends) > 1
    with log.open("r+b") as file:
        file.truncate(ends[max(0, len(ends) - 1 - batches)])


@pytest.mark.parametrize(("folder", "batches"), LOST, ids=str)
def test_a_transactional_id_continues_after_the_end_of_a_log_was_lost(
    start_broker: StartBroker, killed: Path, tmp_path: Path, folder: str, batches: int
) -> None:
    data = shutil.copytree(killed, tmp_path / "data")
    (log,) = (data / folder).glob("*.log")
    lose(log, batches)
    broker = start_broker(data=data, settings=SETTINGS)
    for isolation in ("read_committed", "read_uncommitted"):
        read_to_the_end(broker.bootstrap, "tx", isolation)
    expect_that_transactions_go_on(broker, b"first")
    expect_that_transactions_go_on(broker, b"second")


class Lost:
    """A transaction per epoch (`transaction.version` 2), after which the broker is killed."""

    def __init__(self, start_broker: StartBroker) -> None:
        self.broker = start_broker(settings=SETTINGS)
        self.client = TransactionTranscript(self.broker.port, "lost", time.time_ns() // 1_000_000)
        self.topic = self.client.topic(partitions=2)
        self.producer = self.client.producer(version=5)

    def transact(self, value: bytes, *, ends: bool = True) -> None:
        producer = self.producer
        producer.sequence = 0
        producer.add(self.topic, (0, 1))
        for partition in (0, 1):
            asked = producer.writing(self.topic, partition=partition, value=value)
            assert not produce_code(self.client.quietly(asked, 11))
        if ends:
            answer = self.client.quietly(producer.ending(committed=True), 5)
            assert not answer.error_code
            producer.id, producer.epoch = answer.producer_id, answer.producer_epoch

    def kill_and_lose(self, *lost: tuple[str, int]) -> None:
        self.broker.kill()
        for folder, batches in lost:
            (log,) = (self.broker.data_dir / folder).glob("*.log")
            lose(log, batches)
        self.broker.start()
        self.client.reconnect()

    def until_committed(self, partition: int, *values: bytes) -> None:
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while (found := committed_values(self.client.wire, self.topic.name, partition)) != list(
            values
        ):
            assert time.monotonic() < deadline, found
            time.sleep(0.01)


def test_a_partition_that_lost_its_commit_marker_gets_it_again(start_broker: StartBroker) -> None:
    it = Lost(start_broker)
    it.transact(b"one")
    it.transact(b"two")
    it.kill_and_lose((f"{it.topic.name}-0", 1))
    it.until_committed(0, b"one", b"two")
    it.transact(b"three")  # the producer knows its epoch and is not fenced
    for partition in (0, 1):
        it.until_committed(partition, b"one", b"two", b"three")
    it.client.close()


@pytest.mark.parametrize("batches", [1, 2, 3, 4, 7])
def test_a_transaction_whose_beginning_was_lost_cannot_commit_and_the_next_instance_can(
    start_broker: StartBroker, batches: int
) -> None:
    it = Lost(start_broker)
    for _ in range(4):
        it.transact(b"v")
    it.transact(b"open", ends=False)
    it.kill_and_lose((STATE, batches))
    answer = it.client.until(
        it.producer.ending(committed=True), 5, lambda answer: answer.error_code not in NOT_YET
    )
    assert answer.error_code in CANNOT_COMMIT
    it.producer.take_over(version=5)
    it.transact(b"after")
    for partition in (0, 1):
        it.until_committed(partition, *[b"v"] * 4, b"after")
    it.client.close()


def test_an_instance_continues_after_a_kill_without_a_loss(start_broker: StartBroker) -> None:
    it = Lost(start_broker)
    it.transact(b"one")
    it.kill_and_lose()
    it.transact(b"two")
    it.transact(b"three", ends=False)
    it.kill_and_lose()
    answer = it.client.until(
        it.producer.ending(committed=True), 5, lambda answer: answer.error_code not in NOT_YET
    )
    assert not answer.error_code
    it.until_committed(0, b"one", b"two", b"three")
    assert "records are missing" not in it.broker.log()
    it.client.close()
