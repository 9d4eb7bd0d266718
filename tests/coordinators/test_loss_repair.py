"""Repair of transactions after a power loss removed the end of a log."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

from pykbroker.coordination.transactions.outcome import TopicPartition
from pykbroker.coordinators import loss_repair
from pykbroker.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from pykbroker_protocol.records.batch import RecordBatch
from tests.apis.request_builders import batch
from tests.coordinators.transaction_node import ELSEWHERE, TOPIC, TransactionNode, transaction_node

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from pykbroker.partitions.partition import Partition

ONE, OTHER = TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)
OFFSETS = TopicPartition(CONSUMER_OFFSETS, 0)
UNKNOWN_ID = 99


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[TransactionNode]:
    async with transaction_node(tmp_path / "data") as staged:
        staged.topic(TOPIC, 2)
        staged.topic(CONSUMER_OFFSETS)
        await staged.enter()
        yield staged


def partition_of(node: TransactionNode, place: TopicPartition) -> Partition:
    partition = node.partitions.get(*place)
    assert partition is not None
    return partition


def write(
    node: TransactionNode,
    place: TopicPartition,
    producer_id: int,
    epoch: int,
    *,
    is_transactional: bool = True,
) -> None:
    """Appends directly to the log, as if the coordinator had lost its records."""
    data = batch(
        b"v",
        now_ms=node.now_ms,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=0,
        is_transactional=is_transactional,
    )
    written = partition_of(node, place).leader.write(
        RecordBatch.parse(memoryview(bytearray(data))), node.now_ms
    )
    assert hasattr(written, "last_offset"), written


def is_stable(node: TransactionNode, place: TopicPartition) -> bool:
    partition = partition_of(node, place)
    return partition.last_stable_offset == partition.log.log_end_offset


async def start_after_loss(node: TransactionNode) -> None:
    await node.coordinator.close()
    node.coordinator = node.new_coordinator()
    node.coordinator.repair_losses()
    node.update_partitions()
    await node.until(lambda: not node.coordinator.is_loading)


async def test_a_transactional_id_gets_an_epoch_above_those_in_partitions(
    node: TransactionNode,
) -> None:
    write(node, ONE, 7, 20, is_transactional=False)
    await start_after_loss(node)
    await node.enter()
    assert (node.producer_id, node.producer_epoch) == (7, 22)
    await node.crash()  # without a repair: the epoch is in the log
    await node.enter()
    assert (node.producer_id, node.producer_epoch) == (7, 23)


async def test_open_transactions_of_unknown_producers_abort(
    node: TransactionNode, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loss_repair, "ABORTS_LOGGED_MAX", 3)
    for number in range(10):
        write(node, ONE, UNKNOWN_ID + number, 4)
    write(node, OTHER, UNKNOWN_ID, 5)
    write(node, OFFSETS, UNKNOWN_ID, 4)
    with caplog.at_level(logging.WARNING):
        await start_after_loss(node)
        places = (ONE, OTHER, OFFSETS)
        await node.until(lambda: all(is_stable(node, it) for it in places))
        await node.until(lambda: "same reason: 7" in caplog.text)
    assert caplog.text.count("no transactional id has this producer id") == 3
    assert node.groups.results == [(0, UNKNOWN_ID, False)]
    producer = partition_of(node, ONE).log.producers.get(UNKNOWN_ID)
    assert producer is not None
    assert producer.epoch == 6  # its old instance is fenced


async def test_a_transaction_known_to_its_coordinator_stays_open(node: TransactionNode) -> None:
    await node.join(ONE)
    write(node, ONE, node.producer_id, node.producer_epoch)
    write(node, OTHER, UNKNOWN_ID, 4)
    await start_after_loss(node)
    await node.until(lambda: is_stable(node, OTHER))
    assert not is_stable(node, ONE)
    assert node.state == "Ongoing"
    assert not (await node.end()).error_code
    assert is_stable(node, ONE)


async def test_a_transaction_that_lost_one_of_its_partitions_aborts_in_all(
    node: TransactionNode,
) -> None:
    await node.join(ONE)
    for place in (ONE, OTHER):
        write(node, place, node.producer_id, node.producer_epoch)
    await start_after_loss(node)
    await node.until(lambda: node.state == "CompleteAbort")
    assert is_stable(node, ONE)
    assert is_stable(node, OTHER)
    assert (await node.end()).error_code


async def test_a_prepared_transaction_is_completed_before_it_is_compared(
    node: TransactionNode,
) -> None:
    await node.join(ONE)
    node.lead(TOPIC, 0, leader=ELSEWHERE)
    await node.end()
    assert node.state == "PrepareCommit"
    node.lead(TOPIC, 0, leader=1)
    write(node, OTHER, node.producer_id, 20)
    await start_after_loss(node)
    await node.until(lambda: node.state == "CompleteAbort")
    assert is_stable(node, OTHER)
    await node.enter()
    assert node.producer_epoch == 22


async def test_nothing_aborts_while_a_coordinator_cannot_be_loaded(
    node: TransactionNode, caplog: pytest.LogCaptureFixture
) -> None:
    write(node, ONE, UNKNOWN_ID, 4)
    node.lead(TRANSACTION_STATE, 0, leader=ELSEWHERE)
    with caplog.at_level(logging.WARNING):
        await start_after_loss(node)
        await node.until(lambda: "not all partitions of __transaction_state" in caplog.text)
    assert not is_stable(node, ONE)
    node.lead(TRANSACTION_STATE, 0, leader=1, leader_epoch=1)
    node.coordinator.repair_losses()  # as when a missing log opens
    await node.until(lambda: is_stable(node, ONE))


async def test_producers_without_transactions_are_unchanged(node: TransactionNode) -> None:
    for number in range(1_500):
        write(node, ONE, UNKNOWN_ID + number, 4, is_transactional=False)
    write(node, OTHER, UNKNOWN_ID, 4)
    await start_after_loss(node)
    await node.until(lambda: is_stable(node, OTHER))
    assert partition_of(node, ONE).log.log_end_offset == 1_500
