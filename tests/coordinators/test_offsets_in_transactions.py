"""Transactional offsets in the log of their group: batch format, and state after a crash.

Each test opens the same directory again, with nothing but its files, as after a crash.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pykbroker_protocol.errors import ErrorCode
from tests.coordinators.group_log_driver import group_log, loaded_group_log
from tests.partitions.transactions import OTHER, PRODUCER, end
from tests.storage.batches import NOW, batches_from
from tests.storage.compaction_rounds import compact

if TYPE_CHECKING:
    from pathlib import Path


async def test_transactional_offsets_are_in_a_batch_of_their_producer(tmp_path: Path) -> None:
    async with loaded_group_log(tmp_path) as driver:
        driver.commit(5)
        driver.commit_in_transaction(7, 8, producer_epoch=3)
        plain, transactional = batches_from(driver.partition.log, 0)
    # As Apache Kafka writes them: sequences from 0, with and without a producer.
    assert (plain.producer_id, plain.producer_epoch, plain.base_sequence) == (-1, -1, 0)
    assert not plain.is_transactional
    assert (transactional.producer_id, transactional.producer_epoch) == (PRODUCER, 3)
    assert (transactional.base_sequence, transactional.record_count) == (0, 2)
    assert transactional.is_transactional
    assert not transactional.is_control


@pytest.mark.parametrize("committed", [True, False])
async def test_offsets_decided_by_a_marker_survive_a_crash(
    tmp_path: Path, *, committed: bool
) -> None:
    async with loaded_group_log(tmp_path) as driver:
        driver.commit(5)
        assert driver.commit_in_transaction(7, 8) == [ErrorCode.NONE] * 2
        assert (driver.offsets, driver.pending) == ({0: 5}, [0, 1])
        driver.end(committed=committed)
        decided = {0: 7, 1: 8} if committed else {0: 5}
        assert (driver.offsets, driver.pending) == (decided, [])
    async with loaded_group_log(tmp_path) as driver:
        assert (driver.offsets, driver.pending) == (decided, [])


@pytest.mark.parametrize("committed", [True, False])
async def test_pending_offsets_survive_a_crash_and_are_decided_later(
    tmp_path: Path, *, committed: bool
) -> None:
    async with loaded_group_log(tmp_path) as driver:
        driver.commit(5)
        driver.commit_in_transaction(7)
        driver.commit_in_transaction(9, producer_id=OTHER)
    async with loaded_group_log(tmp_path) as driver:
        assert (driver.offsets, driver.pending) == ({0: 5}, [0])
        driver.end(committed=committed)
        assert (driver.offsets, driver.pending) == ({0: 7 if committed else 5}, [0])
        driver.end(committed=True, producer_id=OTHER)
    async with loaded_group_log(tmp_path) as driver:
        assert (driver.offsets, driver.pending) == ({0: 9}, [])


async def test_a_marker_appended_while_loading_is_applied_once(tmp_path: Path) -> None:
    async with loaded_group_log(tmp_path) as driver:
        driver.commit_in_transaction(7)
    with group_log(tmp_path) as driver:
        end(driver.partition, committed=True)
        await driver.log.load()
        assert (driver.offsets, driver.pending) == ({0: 7}, [])


async def test_a_fenced_producer_commits_no_offsets(tmp_path: Path) -> None:
    async with loaded_group_log(tmp_path) as driver:
        driver.commit_in_transaction(7, producer_epoch=2)
        refused = driver.commit_in_transaction(6, producer_epoch=1)
        assert refused == [ErrorCode.INVALID_PRODUCER_EPOCH]
        driver.end(committed=True, epoch=3)  # like transaction version 2
        assert driver.commit_in_transaction(6, producer_epoch=2) == refused
        assert (driver.offsets, driver.pending) == ({0: 7}, [])


async def test_a_second_offset_commit_in_a_transaction_is_not_a_duplicate(tmp_path: Path) -> None:
    async with loaded_group_log(tmp_path) as driver:
        for offset in (7, 8, 9):
            assert driver.commit_in_transaction(offset) == [ErrorCode.NONE]
        driver.end(committed=True)
        assert driver.offsets == {0: 9}


async def test_offsets_outside_of_transactions_have_no_producer_id(tmp_path: Path) -> None:
    async with loaded_group_log(tmp_path) as driver:
        driver.commit_in_transaction(7)
        assert driver.commit(8) == [ErrorCode.NONE]
        driver.end(committed=True)
        assert driver.offsets == {0: 8}, "it was the later one"


@pytest.mark.parametrize(
    ("story", "offsets"),
    [
        ("plain aborted", {0: 5}),
        ("plain committed", {0: 7}),
        ("committed plain", {0: 5}),
        ("aborted committed", {0: 7}),
        ("committed aborted", {0: 7}),
        ("committed then plain while open", {0: 5}),
    ],
)
async def test_compaction_keeps_committed_and_pending_offsets(
    tmp_path: Path, story: str, offsets: dict[int, int]
) -> None:
    async with loaded_group_log(tmp_path) as driver:
        for word in story.split():
            match word:
                case "plain":
                    driver.commit(5)
                case "committed" | "aborted":
                    driver.commit_in_transaction(7 if word == "committed" else 6)
                    driver.end(committed=word == "committed")
        if story.endswith("open"):
            driver.commit_in_transaction(99, producer_id=OTHER)
        assert driver.offsets == offsets
        driver.partition.log.roll(NOW)
        compact(driver.partition.log)
        before = driver.partition.log.log_end_offset
    async with loaded_group_log(tmp_path) as driver:
        assert driver.partition.log.log_end_offset == before
        assert driver.offsets == offsets
        assert driver.pending == ([0] if story.endswith("open") else [])
