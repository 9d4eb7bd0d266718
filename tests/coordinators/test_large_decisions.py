"""Decisions larger than max.message.bytes: some are split, others are refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pykbroker.coordination.groups.classic_responses import refused_join, refused_sync
from pykbroker.coordination.groups.registry import EXPIRY_TIMER
from pykbroker.coordination.groups.settings import GroupSettings
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsResponse
from pykbroker_protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from pykbroker_protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from tests.coordinators.group_log_driver import GROUP, TOPIC, loaded_group_log
from tests.storage.batches import NOW, batches_from

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pykbroker.coordination.outcome import Outcome
    from tests.coordinators.group_log_driver import GroupLogDriver

BATCH_BYTES_MAX = 1_000
LATER_MS = NOW + 30 * 24 * 60 * 60_000


def fill(driver: GroupLogDriver) -> None:
    """Commits offsets whose tombstones need several batches."""
    for first in range(0, 60, 5):
        codes = driver.commit_at({first + it: 1 for it in range(5)})
        assert codes == [ErrorCode.NONE] * 5


ENDINGS: dict[str, Callable[[GroupLogDriver], Outcome]] = {
    "offsets expire": lambda it: it.log.state.timer((EXPIRY_TIMER,), LATER_MS),
    "a topic is deleted": lambda it: it.log.state.topics_deleted([TOPIC], NOW),
    "a group is deleted": lambda it: it.log.state.delete_groups([GROUP], ticket=0, now_ms=NOW),
}


@pytest.mark.parametrize("ending", ENDINGS.values(), ids=ENDINGS)
async def test_tombstones_of_many_offsets_are_split_into_batches(
    tmp_path: Path, ending: Callable[[GroupLogDriver], Outcome]
) -> None:
    async with loaded_group_log(tmp_path, max_message_bytes=str(BATCH_BYTES_MAX)) as driver:
        fill(driver)
        end_offset = driver.partition.log.log_end_offset
        driver.log.write_if_active(ending(driver))
        assert driver.offsets == {}
        sizes = [it.size_bytes for it in batches_from(driver.partition.log, end_offset)]
        groups = set(driver.log.state.groups)
    assert len(sizes) > 1
    assert max(sizes) <= BATCH_BYTES_MAX
    async with loaded_group_log(tmp_path) as driver:
        assert (driver.offsets, set(driver.log.state.groups)) == ({}, groups)


async def test_a_group_with_many_offsets_is_deleted(tmp_path: Path) -> None:
    async with loaded_group_log(tmp_path, max_message_bytes=str(BATCH_BYTES_MAX)) as driver:
        fill(driver)
        answer = driver.log.decide(
            lambda ticket: driver.log.state.delete_groups([GROUP], ticket=ticket, now_ms=NOW),
            lambda code: DeleteGroupsResponse(
                results=[DeletableGroupResult(group_id=GROUP, error_code=code)]
            ),
        )
    assert isinstance(answer, DeleteGroupsResponse)
    assert [it.error_code for it in answer.results] == [ErrorCode.NONE]
    assert driver.reasons == [f"group {GROUP} is deleted"]


async def test_a_too_large_assignment_is_refused_without_a_logged_decision(
    tmp_path: Path,
) -> None:
    async with loaded_group_log(tmp_path, max_message_bytes=str(BATCH_BYTES_MAX)) as driver:
        member_id, generation = join(driver)
        driver.reasons.clear()
        large = SyncGroupRequestAssignment(member_id=member_id, assignment=bytes(BATCH_BYTES_MAX))
        request = SyncGroupRequest(
            group_id=GROUP, generation_id=generation, member_id=member_id, assignments=[large]
        )
        answer = driver.log.decide(
            lambda ticket: driver.log.state.sync_group(
                request, version=3, ticket=ticket, now_ms=NOW
            ),
            refused_sync,
        )
    assert isinstance(answer, SyncGroupResponse)
    assert answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert driver.reasons == []


async def test_a_resigned_partition_releases_the_memory_of_its_members(tmp_path: Path) -> None:
    async with loaded_group_log(tmp_path) as driver:
        join(driver)
        of_coordinator = driver.log.state.member_bytes.of_coordinator
        assert of_coordinator.total > 0
        driver.log.resign()
        assert of_coordinator.total == 0


def join(driver: GroupLogDriver) -> tuple[str, int]:
    """The first member of a group without rebalance delay."""
    driver.log.state.settings = GroupSettings(initial_rebalance_delay_ms=0)
    request = JoinGroupRequest(
        group_id=GROUP,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id="",
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    answer = driver.log.decide(
        lambda ticket: driver.log.state.join_group(
            request,
            version=3,
            ticket=ticket,
            client_id="anna",
            client_host="/127.0.0.1",
            new_member_id="anna-1",
            now_ms=NOW,
        ),
        refused_join,
    )
    assert isinstance(answer, JoinGroupResponse)
    return answer.member_id, answer.generation_id
