"""A kill at any step of a commit leaves an atomic transaction.

The end of a transaction is a sequence of writes: the decision, a marker per partition, the complete
record. A kill takes effect between two of them. The test writes the sequence once and starts a
broker on each prefix of it.
"""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from compat.apache.apache_kafka import SINGLE_NODE
from pykbroker.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE, partition_of_name
from pykbroker_protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from pykbroker_protocol.messages.find_coordinator import FindCoordinatorRequest
from pykbroker_protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from pykbroker_protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from pykbroker_protocol.records.batch import iterate_batches
from tests.apis.transactions.transcript import Producer, TransactionTranscript, described
from tests.end_to_end.transactions.reading import committed_values

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from compat.broker_process import BrokerProcess
    from tests.end_to_end.conftest import StartBroker

PARTITIONS = range(3)
TOPIC, GROUP = "steps-trucks", "steps-readers"
OFFSET = 17
EPOCH_PER_TRANSACTION_SINCE = 5
INTERNAL_PARTITIONS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A completed transaction and the files that it has written."""

    folder: Path
    producer: Producer
    committed: bool
    version: int

    @property
    def steps(self) -> list[str]:
        """Returns the partitions in the order of their writes."""
        name = self.producer.transactional_id
        state = f"{TRANSACTION_STATE}-{partition_of_name(name, INTERNAL_PARTITIONS)}"
        offsets = f"{CONSUMER_OFFSETS}-{partition_of_name(GROUP, INTERNAL_PARTITIONS)}"
        return [state, offsets, *(f"{TOPIC}-{it}" for it in PARTITIONS), state]


@pytest.mark.parametrize(
    ("version", "committed"),
    [(4, True), (5, True), (5, False)],
    ids=["a commit of version 1", "a commit of version 2", "an abort of version 2"],
)
def test_a_transaction_is_atomic_after_a_kill_at_any_write(
    start_broker: StartBroker,
    tmp_path: Path,
    *,
    version: int,
    committed: bool,
) -> None:
    ended = end_a_transaction(start_broker, tmp_path, version=version, committed=committed)
    for step_count in range(len(ended.steps) + 1):
        folder = tmp_path / f"after-{step_count}"
        cut_after(step_count, ended, folder)
        broker = start_broker(data=folder, settings=SINGLE_NODE)
        expect(broker, ended, was_decided=step_count > 0)
        broker.kill()


def end_a_transaction(
    start_broker: StartBroker, tmp_path: Path, *, version: int, committed: bool
) -> Ended:
    broker = start_broker(data=tmp_path / "whole", settings=SINGLE_NODE)
    client = TransactionTranscript(broker.port, "steps", time.time_ns() // 1_000_000)
    topic = client.topic("trucks", partitions=len(PARTITIONS))
    assert topic.name == TOPIC
    client.quietly(FindCoordinatorRequest(key=GROUP), 3)
    producer = client.producer(version=version)
    producer.add(topic, PARTITIONS)
    for partition in PARTITIONS:
        producer.sequence = 0
        producer.send(topic, partition=partition)
    commit_offsets(client, producer)
    producer.end(committed=committed, version=version)
    client.close()
    broker.kill()
    return Ended(folder=broker.data_dir, producer=producer, committed=committed, version=version)


def commit_offsets(client: TransactionTranscript, producer: Producer) -> None:
    adding = AddOffsetsToTxnRequest(
        transactional_id=producer.transactional_id,
        producer_id=producer.id,
        producer_epoch=producer.epoch,
        group_id=GROUP,
    )
    assert not client.quietly(adding, 3).error_code
    partition = TxnOffsetCommitRequestPartition(
        partition_index=0, committed_offset=OFFSET, committed_metadata=""
    )
    committing = TxnOffsetCommitRequest(
        transactional_id=producer.transactional_id,
        producer_id=producer.id,
        producer_epoch=producer.epoch,
        group_id=GROUP,
        topics=[TxnOffsetCommitRequestTopic(name=TOPIC, partitions=[partition])],
    )
    answer = client.quietly(committing, 3)
    assert not answer.topics[0].partitions[0].error_code, answer


def cut_after(step_count: int, ended: Ended, folder: Path) -> None:
    """Copies the directory without the writes of later steps."""
    shutil.copytree(ended.folder, folder)
    for partition in ended.steps[step_count:]:
        log = folder / partition / f"{0:020d}.log"
        *_, last = batches_in(log)
        with log.open("r+b") as file:
            file.truncate(last)


def batches_in(log: Path) -> Iterator[int]:
    """Returns the positions of all batches in a file."""
    position = 0
    for batch in iterate_batches(log.read_bytes()):
        yield position
        position += batch.size_bytes


def expect(broker: BrokerProcess, ended: Ended, *, was_decided: bool) -> None:
    client = TransactionTranscript(broker.port, "steps", time.time_ns() // 1_000_000)
    producer = Producer(client, ended.producer.transactional_id)
    if was_decided:
        producer.until_complete()
        expect_state(client, "CompleteCommit" if ended.committed else "CompleteAbort")
    else:
        client.until(
            described(producer.transactional_id),
            0,
            lambda it: it.transaction_states[0].transaction_state == "Ongoing",
        )
    counts = was_decided and ended.committed
    expect_visible(client, counts=counts)
    producer.take_over(version=ended.version)
    producer.until_complete()
    expect_visible(client, counts=counts)
    client.close()


def expect_state(client: TransactionTranscript, state: str) -> None:
    answer = client.quietly(described("steps-id"), 0)
    assert answer.transaction_states[0].transaction_state == state


def expect_visible(client: TransactionTranscript, *, counts: bool) -> None:
    """Expects all records or none, in every partition and in the committed offsets."""
    for partition in PARTITIONS:
        values = committed_values(client.wire, TOPIC, partition)
        assert values == ([b"v"] if counts else [])
    topics = [OffsetFetchRequestTopic(name=TOPIC, partition_indexes=[0])]
    request = OffsetFetchRequest(group_id=GROUP, topics=topics, require_stable=False)
    answer = client.until(request, 7, lambda it: not it.error_code)
    assert answer.topics[0].partitions[0].committed_offset == (OFFSET if counts else -1)
