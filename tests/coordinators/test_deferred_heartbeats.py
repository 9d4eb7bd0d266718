"""Heartbeats that wait for a target assignment, on a log whose appends can fail."""

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
from tests.coordinators.group_log_driver import GROUP, loaded_group_log
from tests.storage.batches import batches_from

if TYPE_CHECKING:
    from pathlib import Path

    from pykbroker.partitions.partition import Partition
    from pykbroker_protocol.message import Message
    from pykbroker_protocol.records.batch import RecordBatch
    from pykbroker_storage.log import AppendResult
    from tests.coordinators.group_log_driver import GroupLogDriver

PARTITIONS = 6


def heartbeat(driver: GroupLogDriver, member_id: str) -> asyncio.Future[Message]:
    """A member joins and waits for its assignment."""
    request = ConsumerGroupHeartbeatRequest(
        group_id=GROUP,
        member_id=member_id,
        member_epoch=0,
        rebalance_timeout_ms=10_000,
        subscribed_topic_names=["orders"],
        topic_partitions=[],
    )
    answer = driver.log.decide(
        lambda ticket: driver.log.state.consumer_group_heartbeat(
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


async def outcome_of(answer: asyncio.Future[Message]) -> tuple[int, int]:
    """The error code and the number of assigned partitions."""
    async with asyncio.timeout(5):
        response = await answer
    assert isinstance(response, ConsumerGroupHeartbeatResponse)
    topics = response.assignment.topic_partitions if response.assignment else ()
    return response.error_code, sum(len(it.partitions) for it in topics)


def shares_orders(driver: GroupLogDriver, partitions: int = PARTITIONS) -> None:
    topics = Topics()
    topics.put("orders", partitions)
    driver.log.state.topics = topics
    at_each_join = ConsumerGroupSettings(assignment_interval_ms=0)
    driver.log.state.configure(driver.log.state.settings, at_each_join)


@dataclass
class FullDisk:
    """A partition whose leader side appends `room` more batches, then fails."""

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


async def test_members_that_join_together_get_their_responses_in_the_next_iteration_of_the_loop(
    tmp_path: Path,
) -> None:
    async with loaded_group_log(tmp_path) as driver:
        shares_orders(driver)
        answers = [heartbeat(driver, f"member-{number}") for number in range(3)]
        assert not any(answer.done() for answer in answers)
        assert [await outcome_of(it) for it in answers] == [(ErrorCode.NONE, PARTITIONS // 3)] * 3


@pytest.mark.parametrize("room", range(4), ids=["no join", "a join", "both", "their target"])
async def test_a_failed_append_completes_all_requests_that_wait_for_it_with_an_error(
    tmp_path: Path, room: int
) -> None:
    """Two joins, a target and two reconciliations are four batches."""
    async with loaded_group_log(tmp_path) as driver:
        shares_orders(driver)
        driver.log.partition = disk = FullDisk(driver.log.partition, room)  # type: ignore[assignment]
        answers = [heartbeat(driver, name) for name in ("anna", "bob")]
        assert [(await outcome_of(it))[0] for it in answers] == [ErrorCode.NOT_COORDINATOR] * 2
        consumers = driver.log.state.consumer
        assert (consumers.unassigned, consumers.assigned) == ({}, {})
        disk.room = 100
        again = [heartbeat(driver, name) for name in ("anna", "bob")]
        assert [await outcome_of(it) for it in again] == [(ErrorCode.NONE, PARTITIONS // 2)] * 2


async def test_a_target_assignment_is_computed_again_after_a_failed_append(tmp_path: Path) -> None:
    async with loaded_group_log(tmp_path) as driver:
        shares_orders(driver)
        driver.log.partition = disk = FullDisk(driver.log.partition, 1)  # type: ignore[assignment]
        assert (await outcome_of(heartbeat(driver, "anna")))[0] == ErrorCode.NOT_COORDINATOR
        disk.room = 100
        group = driver.log.state.consumer.find(GROUP)
        assert group is not None
        async with asyncio.timeout(RETRY_MS / 1000 + 5):
            while group.state.epoch > group.state.assignment_epoch:  # noqa: ASYNC110  # no event
                await asyncio.sleep(0.01)


async def test_a_target_assignment_larger_than_a_batch_is_split(tmp_path: Path) -> None:
    members = 40
    async with loaded_group_log(tmp_path, max_message_bytes="1000") as driver:
        shares_orders(driver, partitions=members)
        answers = [heartbeat(driver, f"member-{number}") for number in range(members)]
        assert [await outcome_of(it) for it in answers] == [(ErrorCode.NONE, 1)] * members
        sizes = [it.size_bytes for it in batches_from(driver.partition.log, 0)]
        targets = driver.log.state.consumer.find(GROUP).state.targets  # type: ignore[union-attr]
    assert max(sizes) <= 1000
    async with loaded_group_log(tmp_path) as driver:
        again = driver.log.state.consumer.find(GROUP)
        assert again is not None
        assert again.state.targets == targets
        assert again.state.epoch == again.state.assignment_epoch


async def test_a_partly_appended_target_assignment_is_computed_again(tmp_path: Path) -> None:
    members = 40
    async with loaded_group_log(tmp_path, max_message_bytes="1000") as driver:
        shares_orders(driver, partitions=members)
        driver.log.partition = FullDisk(driver.log.partition, members + 2)  # type: ignore[assignment]
        answers = [heartbeat(driver, f"member-{number}") for number in range(members)]
        codes = {(await outcome_of(it))[0] for it in answers}
        assert codes == {ErrorCode.NOT_COORDINATOR}
    async with loaded_group_log(tmp_path) as driver:
        shares_orders(driver, partitions=members)
        group = driver.log.state.consumer.find(GROUP)
        assert group is not None
        assert 0 < len(group.state.targets) < members
        answers = [heartbeat(driver, f"member-{number}") for number in range(members)]
        assert [await outcome_of(it) for it in answers] == [(ErrorCode.NONE, 1)] * members


async def test_a_failed_append_logs_the_exceeded_limit(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with loaded_group_log(tmp_path, max_message_bytes="100") as driver:
        shares_orders(driver)
        assert (await outcome_of(heartbeat(driver, "anna")))[0] == ErrorCode.UNKNOWN_SERVER_ERROR
        (line,) = [it for it in caplog.messages if "append failed" in it]
        assert "max.message.bytes of the topic is 100" in line


@pytest.mark.parametrize("step", ["run_assignment_slice", "answer"])
async def test_an_internal_error_completes_all_waiting_requests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    async with loaded_group_log(tmp_path) as driver:
        shares_orders(driver)
        with monkeypatch.context() as faulty:
            faulty.setattr(ConsumerGroup, step, None)
            answers = [heartbeat(driver, name) for name in ("anna", "bob")]
            codes = [(await outcome_of(it))[0] for it in answers]
        assert codes == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 2
        assert not driver.log.state._parked  # the requests that still wait
        again = [heartbeat(driver, name) for name in ("anna", "bob")]
        assert [await outcome_of(it) for it in again] == [(ErrorCode.NONE, PARTITIONS // 2)] * 2


async def test_a_resigned_coordinator_completes_waiting_requests(tmp_path: Path) -> None:
    async with loaded_group_log(tmp_path) as driver:
        shares_orders(driver)
        answer = heartbeat(driver, "anna")
        driver.log.resign()
        assert (await outcome_of(answer))[0] == ErrorCode.NOT_COORDINATOR
