"""Heartbeats that wait for a new target, on a log that may refuse to take what they say."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from pykbroker.clock import SystemClock
from pykbroker.coordination.groups.consumer_group import ConsumerGroup
from pykbroker.coordination.groups.consumer_settings import ConsumerGroupSettings
from pykbroker.coordinators.coordinated_log import RETRY_MS
from pykbroker_protocol.errors import ErrorCode, Refusal
from pykbroker_protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from tests.coordination.consumer.world import Topics
from tests.coordinators.diary import GROUP, diary_in
from tests.storage.batches import batches_from

if TYPE_CHECKING:
    from pathlib import Path

    from pykbroker.partitions.partition import Partition
    from pykbroker_protocol.message import Message
    from pykbroker_protocol.records.batch import RecordBatch
    from pykbroker_storage.log import AppendResult
    from tests.coordinators.diary import Diary

PARTITIONS = 6


def heartbeat(diary: Diary, member_id: str) -> asyncio.Future[Message]:
    """A member joins, and waits."""
    request = ConsumerGroupHeartbeatRequest(
        group_id=GROUP,
        member_id=member_id,
        member_epoch=0,
        rebalance_timeout_ms=10_000,
        subscribed_topic_names=["orders"],
        topic_partitions=[],
    )
    answer = diary.log.decide(
        lambda ticket: diary.log.state.consumer_group_heartbeat(
            request,
            version=1,
            ticket=ticket,
            client_id="client",
            client_host="/127.0.0.1",
            new_member_id="",
            now_ms=SystemClock().now_ms(),
        ),
        lambda code: ConsumerGroupHeartbeatResponse(
            error_code=code, member_epoch=0, heartbeat_interval_ms=0
        ),
    )
    if isinstance(answer, asyncio.Future):
        return answer
    at_hand: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
    at_hand.set_result(answer)
    return at_hand


async def told(answer: asyncio.Future[Message]) -> tuple[int, int]:
    """The error code, and how many partitions."""
    async with asyncio.timeout(5):
        response = await answer
    assert isinstance(response, ConsumerGroupHeartbeatResponse)
    topics = response.assignment.topic_partitions if response.assignment else ()
    return response.error_code, sum(len(it.partitions) for it in topics)


def shares_orders(diary: Diary, partitions: int = PARTITIONS) -> None:
    topics = Topics()
    topics.put("orders", partitions)
    diary.log.state.topics = topics
    at_each_join = ConsumerGroupSettings(assignment_interval_ms=0)
    diary.log.state.configure(diary.log.state.settings, at_each_join)


@dataclass
class FullDisk:
    """A partition whose leader side appends so many batches more, until there is room again."""

    partition: Partition
    room: int

    @property
    def leader(self) -> FullDisk:
        return self

    def write(self, batch: RecordBatch, now_ms: int) -> AppendResult | Refusal:
        if self.room == 0:
            return Refusal(ErrorCode.KAFKA_STORAGE_ERROR)
        self.room -= 1
        return self.partition.leader.write(batch, now_ms)

    def __getattr__(self, name: str) -> object:
        return getattr(self.partition, name)


async def test_who_joins_together_is_answered_in_the_next_turn_of_the_loop(tmp_path: Path) -> None:
    async with diary_in(tmp_path) as diary:
        shares_orders(diary)
        answers = [heartbeat(diary, f"member-{number}") for number in range(3)]
        assert not any(answer.done() for answer in answers)
        assert [await told(it) for it in answers] == [(ErrorCode.NONE, PARTITIONS // 3)] * 3


@pytest.mark.parametrize("room", range(4), ids=["no join", "a join", "both", "their target"])
async def test_what_cannot_be_written_is_told_to_all_who_wait_for_it(
    tmp_path: Path, room: int
) -> None:
    """Two joins, a target and the steps of both are four batches."""
    async with diary_in(tmp_path) as diary:
        shares_orders(diary)
        diary.log.partition = disk = FullDisk(diary.log.partition, room)  # type: ignore[assignment]
        answers = [heartbeat(diary, name) for name in ("anna", "bob")]
        assert [(await told(it))[0] for it in answers] == [ErrorCode.NOT_COORDINATOR] * 2
        consumers = diary.log.state.consumer
        assert (consumers.unassigned, consumers.assigned) == ({}, {})
        disk.room = 100
        again = [heartbeat(diary, name) for name in ("anna", "bob")]
        assert [await told(it) for it in again] == [(ErrorCode.NONE, PARTITIONS // 2)] * 2


async def test_a_target_that_could_not_be_written_is_computed_again(tmp_path: Path) -> None:
    async with diary_in(tmp_path) as diary:
        shares_orders(diary)
        diary.log.partition = disk = FullDisk(diary.log.partition, 1)  # type: ignore[assignment]
        assert (await told(heartbeat(diary, "anna")))[0] == ErrorCode.NOT_COORDINATOR
        disk.room = 100
        group = diary.log.state.consumer.find(GROUP)
        assert group is not None
        async with asyncio.timeout(RETRY_MS / 1000 + 5):
            while group.state.epoch > group.state.assignment_epoch:  # noqa: ASYNC110  # no event
                await asyncio.sleep(0.01)


async def test_a_target_that_is_larger_than_a_batch_is_written_in_parts(tmp_path: Path) -> None:
    members = 40
    async with diary_in(tmp_path, max_message_bytes="1000") as diary:
        shares_orders(diary, partitions=members)
        answers = [heartbeat(diary, f"member-{number}") for number in range(members)]
        assert [await told(it) for it in answers] == [(ErrorCode.NONE, 1)] * members
        sizes = [it.size_bytes for it in batches_from(diary.partition.log, 0)]
        targets = diary.log.state.consumer.find(GROUP).state.targets  # type: ignore[union-attr]
    assert max(sizes) <= 1000
    async with diary_in(tmp_path) as diary:
        again = diary.log.state.consumer.find(GROUP)
        assert again is not None
        assert again.state.targets == targets
        assert again.state.epoch == again.state.assignment_epoch


async def test_a_target_of_which_only_a_part_was_written_is_computed_again(tmp_path: Path) -> None:
    members = 40
    async with diary_in(tmp_path, max_message_bytes="1000") as diary:
        shares_orders(diary, partitions=members)
        diary.log.partition = FullDisk(diary.log.partition, members + 2)  # type: ignore[assignment]
        answers = [heartbeat(diary, f"member-{number}") for number in range(members)]
        codes = {(await told(it))[0] for it in answers}
        assert codes == {ErrorCode.NOT_COORDINATOR}
    async with diary_in(tmp_path) as diary:
        shares_orders(diary, partitions=members)
        group = diary.log.state.consumer.find(GROUP)
        assert group is not None
        assert 0 < len(group.state.targets) < members
        answers = [heartbeat(diary, f"member-{number}") for number in range(members)]
        assert [await told(it) for it in answers] == [(ErrorCode.NONE, 1)] * members


async def test_an_append_that_fails_says_which_bound_is_too_small(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with diary_in(tmp_path, max_message_bytes="100") as diary:
        shares_orders(diary)
        assert (await told(heartbeat(diary, "anna")))[0] == ErrorCode.UNKNOWN_SERVER_ERROR
        (line,) = [it for it in caplog.messages if "append failed" in it]
        assert "max.message.bytes of the topic is 100" in line


@pytest.mark.parametrize("step", ["run_assignment_slice", "answer"])
async def test_a_fault_of_ours_leaves_nobody_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    async with diary_in(tmp_path) as diary:
        shares_orders(diary)
        with monkeypatch.context() as faulty:
            faulty.setattr(ConsumerGroup, step, None)
            answers = [heartbeat(diary, name) for name in ("anna", "bob")]
            codes = [(await told(it))[0] for it in answers]
        assert codes == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 2
        assert not diary.log.state._parked  # the requests that still wait
        again = [heartbeat(diary, name) for name in ("anna", "bob")]
        assert [await told(it) for it in again] == [(ErrorCode.NONE, PARTITIONS // 2)] * 2


async def test_a_coordinator_that_is_given_up_tells_those_who_wait(tmp_path: Path) -> None:
    async with diary_in(tmp_path) as diary:
        shares_orders(diary)
        answer = heartbeat(diary, "anna")
        diary.log.resign()
        assert (await told(answer))[0] == ErrorCode.NOT_COORDINATOR
