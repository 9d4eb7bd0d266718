"""Offsets of a transaction in the log of their group: how they lie there, what outlives a crash.

Each test opens the same directory again, with nothing but its files, as after a crash.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pykbroker_protocol.errors import ErrorCode
from tests.coordinators.diary import diary_in, group_log
from tests.partitions.transacting import OTHER, PRODUCER, end
from tests.storage.batches import NOW, batches_from
from tests.storage.compaction_rounds import compact

if TYPE_CHECKING:
    from pathlib import Path


async def test_offsets_lie_in_a_batch_of_their_producer(tmp_path: Path) -> None:
    async with diary_in(tmp_path) as diary:
        diary.commit(5)
        diary.commit_in_transaction(7, 8, producer_epoch=3)
        plain, transactional = batches_from(diary.partition.log, 0)
    # As Apache Kafka writes them: sequences from 0, with and without a producer.
    assert (plain.producer_id, plain.producer_epoch, plain.base_sequence) == (-1, -1, 0)
    assert not plain.is_transactional
    assert (transactional.producer_id, transactional.producer_epoch) == (PRODUCER, 3)
    assert (transactional.base_sequence, transactional.record_count) == (0, 2)
    assert transactional.is_transactional
    assert not transactional.is_control


@pytest.mark.parametrize("committed", [True, False])
async def test_what_a_marker_has_decided_outlives_a_crash(
    tmp_path: Path, *, committed: bool
) -> None:
    async with diary_in(tmp_path) as diary:
        diary.commit(5)
        assert diary.commit_in_transaction(7, 8) == [ErrorCode.NONE] * 2
        assert (diary.offsets, diary.pending) == ({0: 5}, [0, 1])
        diary.end(committed=committed)
        decided = {0: 7, 1: 8} if committed else {0: 5}
        assert (diary.offsets, diary.pending) == (decided, [])
    async with diary_in(tmp_path) as diary:
        assert (diary.offsets, diary.pending) == (decided, [])


@pytest.mark.parametrize("committed", [True, False])
async def test_an_open_transaction_outlives_a_crash_and_is_decided_later(
    tmp_path: Path, *, committed: bool
) -> None:
    async with diary_in(tmp_path) as diary:
        diary.commit(5)
        diary.commit_in_transaction(7)
        diary.commit_in_transaction(9, producer_id=OTHER)
    async with diary_in(tmp_path) as diary:
        assert (diary.offsets, diary.pending) == ({0: 5}, [0])
        diary.end(committed=committed)
        assert (diary.offsets, diary.pending) == ({0: 7 if committed else 5}, [0])
        diary.end(committed=True, producer_id=OTHER)
    async with diary_in(tmp_path) as diary:
        assert (diary.offsets, diary.pending) == ({0: 9}, [])


async def test_a_marker_that_comes_while_the_log_loads_counts_once(tmp_path: Path) -> None:
    async with diary_in(tmp_path) as diary:
        diary.commit_in_transaction(7)
    with group_log(tmp_path) as diary:
        end(diary.partition, committed=True)
        await diary.log.load()
        assert (diary.offsets, diary.pending) == ({0: 7}, [])


async def test_a_zombie_commits_nothing(tmp_path: Path) -> None:
    async with diary_in(tmp_path) as diary:
        diary.commit_in_transaction(7, producer_epoch=2)
        refused = diary.commit_in_transaction(6, producer_epoch=1)
        assert refused == [ErrorCode.INVALID_PRODUCER_EPOCH]
        diary.end(committed=True, epoch=3)  # as of version 2
        assert diary.commit_in_transaction(6, producer_epoch=2) == refused
        assert (diary.offsets, diary.pending) == ({0: 7}, [])


async def test_who_commits_again_in_its_transaction_is_no_duplicate(tmp_path: Path) -> None:
    async with diary_in(tmp_path) as diary:
        for offset in (7, 8, 9):
            assert diary.commit_in_transaction(offset) == [ErrorCode.NONE]
        diary.end(committed=True)
        assert diary.offsets == {0: 9}


async def test_offsets_outside_of_transactions_come_from_no_producer(tmp_path: Path) -> None:
    async with diary_in(tmp_path) as diary:
        diary.commit_in_transaction(7)
        assert diary.commit(8) == [ErrorCode.NONE]
        diary.end(committed=True)
        assert diary.offsets == {0: 8}, "it was the later one"


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
async def test_compaction_keeps_what_counts(
    tmp_path: Path, story: str, offsets: dict[int, int]
) -> None:
    async with diary_in(tmp_path) as diary:
        for word in story.split():
            match word:
                case "plain":
                    diary.commit(5)
                case "committed" | "aborted":
                    diary.commit_in_transaction(7 if word == "committed" else 6)
                    diary.end(committed=word == "committed")
        if story.endswith("open"):
            diary.commit_in_transaction(99, producer_id=OTHER)
        assert diary.offsets == offsets
        diary.partition.log.roll(NOW)
        compact(diary.partition.log)
        before = diary.partition.log.log_end_offset
    async with diary_in(tmp_path) as diary:
        assert diary.partition.log.log_end_offset == before
        assert diary.offsets == offsets
        assert diary.pending == ([0] if story.endswith("open") else [])
