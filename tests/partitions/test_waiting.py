"""Waiting requests of a partition complete when it changes, or at their deadline."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from pykbroker.partitions.isolation import Isolation
from pykbroker.partitions.waiting import (
    CommitWait,
    FetchWait,
    WaitingRequests,
    wait_for_bytes,
    wait_for_commit,
)
from pykbroker.testing.movable_clock import MovableClock
from pykbroker_protocol.errors import ErrorCode
from tests.partitions.local_partitions import LEADERSHIP
from tests.storage.batches import NOW, batch_bytes

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any

    from pykbroker.partitions.partition import Partition
    from tests.partitions.local_partitions import LocalPartitions

DAY_SECONDS = 86_400
TIMEOUT_SECONDS = 20
REPLICATED = replace(LEADERSHIP, replicas=(1, 2), in_sync=(1, 2), partition_epoch=1)
ELSEWHERE = replace(REPLICATED, leader=2, leader_epoch=1, partition_epoch=2)
ALONE = replace(REPLICATED, in_sync=(1,), partition_epoch=2)


@pytest.fixture
def clock() -> MovableClock:
    return MovableClock()


@pytest.fixture
def replicated(local: LocalPartitions) -> Partition:
    """A partition with one record that the second replica does not have."""
    partition = local.add("orders", cleanup_policy="delete")
    partition.lead_or_follow(REPLICATED)
    partition.leader.append(
        memoryview(bytearray(batch_bytes([b"v"]))), required_acks=-1, produce_version=9, now_ms=NOW
    )
    assert (partition.log.log_end_offset, partition.high_watermark) == (1, 0)
    return partition


async def started(work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    task = asyncio.create_task(work)
    await asyncio.sleep(0)
    assert not task.done()
    return task


async def outcome_of(task: asyncio.Task[Any]) -> Any:
    return await asyncio.wait_for(task, TIMEOUT_SECONDS)


async def test_commit_wait_completes_when_the_high_watermark_reaches_its_offset(
    replicated: Partition, clock: MovableClock
) -> None:
    waiting = await started(wait_for_commit(replicated, 1, DAY_SECONDS, clock=clock))
    replicated.lead_or_follow(ALONE)
    assert await outcome_of(waiting) is ErrorCode.NONE


async def test_commit_wait_fails_at_once_when_leadership_moves_away(
    replicated: Partition, clock: MovableClock
) -> None:
    waiting = await started(wait_for_commit(replicated, 1, DAY_SECONDS, clock=clock))
    replicated.lead_or_follow(ELSEWHERE)
    assert await outcome_of(waiting) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert replicated.waiting.commits == []


async def test_commit_wait_of_a_follower_fails_even_below_its_high_watermark(
    replicated: Partition, clock: MovableClock
) -> None:
    replicated.lead_or_follow(ALONE)
    replicated.lead_or_follow(ELSEWHERE)
    assert replicated.high_watermark == 1
    code = await wait_for_commit(replicated, 1, DAY_SECONDS, clock=clock)
    assert code is ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_commit_wait_continues_when_this_broker_stays_leader(
    replicated: Partition, clock: MovableClock
) -> None:
    waiting = await started(wait_for_commit(replicated, 1, DAY_SECONDS, clock=clock))
    replicated.lead_or_follow(replace(REPLICATED, partition_epoch=3))
    await asyncio.sleep(0)
    assert not waiting.done()
    replicated.lead_or_follow(replace(ALONE, partition_epoch=4))
    assert await outcome_of(waiting) is ErrorCode.NONE


async def test_acks_all_gets_an_error_if_the_in_sync_set_is_too_small_after_the_append(
    local: LocalPartitions, clock: MovableClock
) -> None:
    partition = local.add("payments", cleanup_policy="delete", min_insync_replicas="2")
    partition.lead_or_follow(replace(REPLICATED, in_sync=(1,)))
    code = await wait_for_commit(partition, 0, DAY_SECONDS, clock=clock)
    assert code is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


async def test_older_metadata_than_the_last_response_of_the_controller_has_no_effect(
    replicated: Partition,
) -> None:
    replicated.lead_or_follow(replace(ALONE, partition_epoch=3))
    replicated.lead_or_follow(ALONE)
    assert replicated.leadership.partition_epoch == 3
    assert replicated.high_watermark == 1


async def test_commit_wait_fails_when_the_partition_is_deleted(
    replicated: Partition, clock: MovableClock
) -> None:
    waiting = await started(wait_for_commit(replicated, 1, DAY_SECONDS, clock=clock))
    replicated.end_waits()
    assert await outcome_of(waiting) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_commit_wait_times_out_when_the_broker_clock_is_advanced(
    replicated: Partition, clock: MovableClock
) -> None:
    waiting = await started(wait_for_commit(replicated, 1, DAY_SECONDS, clock=clock))
    await clock.advance(hours=23)
    assert not waiting.done()
    await clock.advance(hours=2)
    assert await outcome_of(waiting) is ErrorCode.REQUEST_TIMED_OUT


async def test_a_cancelled_commit_wait_leaves_nothing_behind(
    replicated: Partition, clock: MovableClock
) -> None:
    waiting = await started(wait_for_commit(replicated, 1, DAY_SECONDS, clock=clock))
    waiting.cancel()
    await asyncio.wait([waiting])
    assert replicated.waiting.commits == []
    assert not clock._waiting


async def test_fetch_wait_completes_when_leadership_moves_away(
    replicated: Partition, clock: MovableClock
) -> None:
    waiting = await started(wait_for_bytes([replicated], 1_000_000, DAY_SECONDS, clock=clock))
    replicated.lead_or_follow(ELSEWHERE)
    await outcome_of(waiting)
    assert not replicated.waiting.fetches


async def test_fetch_wait_ends_when_the_broker_clock_is_advanced(
    replicated: Partition, clock: MovableClock
) -> None:
    waiting = await started(wait_for_bytes([replicated], 1, DAY_SECONDS, clock=clock))
    await clock.advance(days=2)
    assert waiting.done()


async def test_fetch_wait_ends_while_the_broker_clock_stands(
    replicated: Partition, clock: MovableClock
) -> None:
    clock.freeze()
    waiting = await started(wait_for_bytes([replicated], 1, 0.01, clock=clock))
    await outcome_of(waiting)


async def test_fetch_wait_completes_with_the_last_missing_byte() -> None:
    wait = FetchWait(100, Isolation.READ_UNCOMMITTED, asyncio.get_running_loop().create_future())
    wait.bytes_arrived(99)
    assert not wait.done.done()
    wait.bytes_arrived(1)
    assert wait.done.done()


async def test_only_commit_waits_up_to_the_high_watermark_complete() -> None:
    requests, loop = WaitingRequests(), asyncio.get_running_loop()
    waits = [CommitWait(offset, loop.create_future()) for offset in (1, 2, 3)]
    requests.commits += waits
    requests.complete_commits(2, ErrorCode.NONE)
    assert requests.commits == waits[2:]
    assert [it.done.done() for it in waits] == [True, True, False]
    assert [await it.done for it in waits[:2]] == [ErrorCode.NONE] * 2


@pytest.mark.parametrize(
    ("isolation", "missing"), [(Isolation.READ_UNCOMMITTED, 10), (Isolation.READ_COMMITTED, 60)]
)
async def test_a_fetch_counts_the_bytes_that_its_isolation_level_can_read(
    isolation: Isolation, missing: int
) -> None:
    requests = WaitingRequests()
    wait = FetchWait(100, isolation, asyncio.get_running_loop().create_future())
    requests.fetches[wait] = None
    requests.bytes_arrived(committed=90, stable=40)
    assert wait.bytes_missing == missing
