"""Markers of decided transactions: retries, and resignation of the coordinator."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from pykbroker.coordination.transactions.outcome import TopicPartition
from pykbroker.coordination.transactions.settings import TransactionSettings
from pykbroker.coordinators import transaction_markers
from pykbroker.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from pykbroker_protocol.errors import ErrorCode
from tests.coordinators.transaction_node import (
    ELSEWHERE,
    HERE,
    NAME,
    TOPIC,
    TransactionNode,
    transaction_node,
)
from tests.storage.disks import SmallDisk

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

ONE, OTHER = TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)
PLENTY = 1 << 30
BYTES_OF_AN_END = 600
"""The decision, two markers and the word that they are written have room in as much."""


@pytest.fixture(autouse=True)
def _no_long_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction_markers, "RETRY_SECONDS_MIN", 0.001)
    monkeypatch.setattr(transaction_markers, "RETRY_SECONDS_MAX", 0.002)
    monkeypatch.setattr(transaction_markers, "COMMIT_CHECK_SECONDS", 0.002)


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[TransactionNode]:
    """A node with a topic of two partitions, and a producer."""
    async with transaction_node(tmp_path / "data") as staged:
        staged.topic(TOPIC, 2)
        await staged.enter()
        yield staged


async def test_a_transaction_with_local_partitions_is_complete_before_the_response_of_end_txn(
    node: TransactionNode,
) -> None:
    assert await node.join(ONE, OTHER) == {ErrorCode.NONE}
    answer = node.ending()
    assert not isinstance(answer, asyncio.Future)
    assert node.markers_in([ONE, OTHER]) == [1, 1]
    assert node.state == "CompleteCommit"


async def test_a_transaction_with_many_partitions_is_complete_after_several_slices(
    node: TransactionNode,
) -> None:
    count = transaction_markers.MARKERS_PER_SLICE * 2 + 1
    node.topic("wide", count)
    places = [TopicPartition("wide", index) for index in range(count)]
    await node.join(*places)
    assert not (await node.end()).error_code
    assert node.state == "PrepareCommit"
    await node.until(lambda: node.state == "CompleteCommit")
    assert node.markers_in(places) == [1] * count


async def test_a_failed_marker_does_not_delay_other_partitions(node: TransactionNode) -> None:
    await node.join(ONE, OTHER)
    node.lead(TOPIC, 0, leader=ELSEWHERE)
    assert not (await node.end(committed=False)).error_code
    assert node.markers_in([ONE, OTHER]) == [0, 1]
    assert node.state == "PrepareAbort"
    node.lead(TOPIC, 0, leader=HERE)
    await node.until(lambda: node.state == "CompleteAbort")
    assert node.markers_in([ONE, OTHER]) == [1, 1]


async def test_deleted_partitions_count_as_complete(node: TransactionNode) -> None:
    node.topic("gone")
    await node.join(ONE, TopicPartition("gone", 0))
    node.delete("gone")
    await node.end()
    assert node.state == "CompleteCommit"


async def test_partitions_can_be_deleted_while_their_markers_wait(node: TransactionNode) -> None:
    await node.join(ONE)
    node.lead(TOPIC, 0, leader=ELSEWHERE)
    await node.end()
    node.delete(TOPIC)
    await node.until(lambda: node.state == "CompleteCommit")


async def test_a_decided_transaction_completes_after_a_crash(node: TransactionNode) -> None:
    await node.join(ONE, OTHER)
    node.lead(TOPIC, 0, leader=ELSEWHERE)
    await node.end()
    assert node.markers_in([ONE, OTHER]) == [0, 1]
    node.lead(TOPIC, 0, leader=HERE)
    await node.crash()
    await node.until(lambda: node.state == "CompleteCommit")
    assert node.markers_in([ONE, OTHER]) == [1, 2]  # a repeated marker is harmless


async def test_an_undecided_transaction_stays_open_after_a_crash(node: TransactionNode) -> None:
    await node.join(ONE)
    await node.crash()
    assert node.state == "Ongoing"
    assert node.markers_in([ONE]) == [0]
    assert not (await node.end()).error_code
    assert node.state == "CompleteCommit"


async def test_a_resigned_coordinator_writes_no_markers(node: TransactionNode) -> None:
    await node.join(ONE)
    node.lead(TOPIC, 0, leader=ELSEWHERE)
    await node.end()
    node.lead(TRANSACTION_STATE, 0, leader=ELSEWHERE)
    node.lead(TOPIC, 0, leader=HERE)
    await asyncio.sleep(0.02)
    assert node.markers_in([ONE]) == [0]
    assert node.coordinator.find(NAME) is ErrorCode.NOT_COORDINATOR
    assert await node.join(ONE) == {ErrorCode.NOT_COORDINATOR}


async def test_markers_after_reelection_have_the_new_coordinator_epoch(
    node: TransactionNode,
) -> None:
    await node.join(ONE)
    node.lead(TRANSACTION_STATE, 0, leader_epoch=5)
    await node.until(lambda: not node.coordinator.is_loading)
    await node.end()
    partition = node.partitions.get(*ONE)
    assert partition is not None
    (producer,) = partition.log.producers.active()
    assert producer.coordinator_epoch == 5


async def test_a_transaction_with_a_marker_of_a_newer_coordinator_is_left_to_that_coordinator(
    node: TransactionNode,
) -> None:
    await node.join(ONE, OTHER)
    partition = node.partitions.get(*ONE)
    assert partition is not None
    partition.leader.write_marker(
        producer_id=node.producer_id,
        producer_epoch=node.producer_epoch,
        coordinator_epoch=9,
        committed=True,
        transaction_version=0,
        now_ms=node.now_ms,
    )
    await node.end(committed=False)
    assert node.markers_in([ONE]) == [1]
    assert node.state == "PrepareAbort"


async def test_markers_wait_until_the_decision_is_committed(node: TransactionNode) -> None:
    await node.join(ONE)
    node.lead(TRANSACTION_STATE, 0, replicas=(HERE, ELSEWHERE), in_sync=(HERE, ELSEWHERE))
    answer = node.ending()
    assert isinstance(answer, asyncio.Future)
    await asyncio.sleep(0)
    assert node.markers_in([ONE]) == [0]
    node.lead(TRANSACTION_STATE, 0, in_sync=(HERE,))
    assert not (await answer).error_code
    await node.until(lambda: node.state == "CompleteCommit")
    assert node.markers_in([ONE]) == [1]


async def test_a_transaction_is_complete_when_its_markers_are_committed(
    node: TransactionNode,
) -> None:
    await node.join(ONE)
    node.lead(TOPIC, 0, replicas=(HERE, ELSEWHERE), in_sync=(HERE, ELSEWHERE))
    await node.end()
    assert node.markers_in([ONE]) == [1]
    assert node.state == "PrepareCommit"
    node.lead(TOPIC, 0, in_sync=(HERE,))
    await node.until(lambda: node.state == "CompleteCommit")
    assert node.markers_in([ONE]) == [1]


async def test_an_uncommitted_marker_is_written_again_after_a_change_of_leadership(
    node: TransactionNode,
) -> None:
    await node.join(ONE)
    node.lead(TOPIC, 0, replicas=(HERE, ELSEWHERE), in_sync=(HERE, ELSEWHERE))
    await node.end()
    assert node.markers_in([ONE]) == [1]
    node.lead(TOPIC, 0, in_sync=(HERE,), leader_epoch=3)
    await node.until(lambda: node.state == "CompleteCommit")
    assert node.markers_in([ONE]) == [2]


async def test_a_partition_can_be_deleted_while_its_marker_is_not_committed(
    node: TransactionNode,
) -> None:
    await node.join(ONE)
    node.lead(TOPIC, 0, replicas=(HERE, ELSEWHERE), in_sync=(HERE, ELSEWHERE))
    await node.end()
    node.delete(TOPIC)
    await node.until(lambda: node.state == "CompleteCommit")


async def test_the_group_coordinator_gets_the_result_of_a_transaction(
    node: TransactionNode,
) -> None:
    node.topic(CONSUMER_OFFSETS, 2)
    await node.join(ONE, TopicPartition(CONSUMER_OFFSETS, 1))
    await node.end(committed=False)
    assert node.groups.results == [(1, node.producer_id, False)]


async def test_leaders_get_the_result_of_a_verification(node: TransactionNode) -> None:
    assert await node.join(ONE, verify_only=True) == {ErrorCode.TRANSACTION_ABORTABLE}
    await node.join(ONE)
    assert await node.join(ONE, verify_only=True) == {ErrorCode.NONE}
    node.producer_epoch += 1
    assert await node.join(ONE, verify_only=True) == {ErrorCode.INVALID_PRODUCER_EPOCH}
    node.coordinator.verifies_partitions = False
    assert await node.join(ONE, verify_only=True) == {ErrorCode.NONE}
    assert await node.join(ONE) == {ErrorCode.INVALID_PRODUCER_EPOCH}


async def test_a_transaction_is_aborted_after_its_timeout(tmp_path: Path) -> None:
    settings = TransactionSettings(timeout_check_interval_ms=5)
    async with transaction_node(tmp_path / "data", settings) as node:
        node.topic(TOPIC)
        await node.enter(timeout_ms=1)
        await node.join(ONE)
        await node.until(lambda: node.state == "CompleteAbort")
        assert node.markers_in([ONE]) == [1]
        assert (await node.end()).error_code


async def test_an_unused_transactional_id_expires(tmp_path: Path) -> None:
    settings = TransactionSettings(id_expiration_ms=1, expiry_check_interval_ms=5)
    async with transaction_node(tmp_path / "data", settings) as node:
        await node.enter()
        await node.until(lambda: node.state == "")
        await node.crash()
        assert node.state == ""


async def test_a_full_disk_at_any_byte_leaves_a_transaction_undecided_or_complete(
    tmp_path: Path,
) -> None:
    disk = SmallDisk(PLENTY)
    settings = TransactionSettings(timeout_check_interval_ms=5)
    async with transaction_node(tmp_path / "data", settings, disk) as node:
        node.topic(TOPIC, 2)
        await node.enter()
        undecided, states_when_full = 0, set()
        for room_bytes in range(0, BYTES_OF_AN_END, 7):
            before = node.markers_in([ONE, OTHER])
            await node.join(ONE, OTHER)
            disk.room_bytes = room_bytes
            code = (await node.end()).error_code
            states_when_full.add(node.state)
            assert (code == ErrorCode.NOT_COORDINATOR) is (node.state == "Ongoing")
            disk.room_bytes = PLENTY
            if code:
                undecided += 1
                assert not (await node.end()).error_code
            await node.until(lambda: node.state == "CompleteCommit")
            assert node.markers_in([ONE, OTHER]) == [it + 1 for it in before]
        assert states_when_full == {"Ongoing", "PrepareCommit", "CompleteCommit"}
        assert undecided
