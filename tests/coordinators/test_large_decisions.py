"""Decisions that are larger than a batch may be: what can be written in parts, and what cannot."""

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
from tests.coordinators.diary import GROUP, TOPIC, diary_in
from tests.storage.batches import NOW, batches_from

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pykbroker.coordination.outcome import Outcome
    from tests.coordinators.diary import Diary

BATCH_BYTES_MAX = 1_000
LATER_MS = NOW + 30 * 24 * 60 * 60_000


def fill(diary: Diary) -> None:
    """Tombstones of these take several batches."""
    for first in range(0, 60, 5):
        codes = diary.commit_at({first + it: 1 for it in range(5)})
        assert codes == [ErrorCode.NONE] * 5


ENDINGS: dict[str, Callable[[Diary], Outcome]] = {
    "offsets expire": lambda it: it.log.state.timer((EXPIRY_TIMER,), LATER_MS),
    "a topic is deleted": lambda it: it.log.state.topics_deleted([TOPIC], NOW),
    "a group is deleted": lambda it: it.log.state.delete_groups([GROUP], ticket=0, now_ms=NOW),
}


@pytest.mark.parametrize("ending", ENDINGS.values(), ids=ENDINGS)
async def test_what_many_offsets_end_with_is_written_in_parts(
    tmp_path: Path, ending: Callable[[Diary], Outcome]
) -> None:
    async with diary_in(tmp_path, max_message_bytes=str(BATCH_BYTES_MAX)) as diary:
        fill(diary)
        end_offset = diary.partition.log.log_end_offset
        diary.log.carry_out(ending(diary))
        assert diary.offsets == {}
        sizes = [it.size_bytes for it in batches_from(diary.partition.log, end_offset)]
        groups = set(diary.log.state.groups)
    assert len(sizes) > 1
    assert max(sizes) <= BATCH_BYTES_MAX
    async with diary_in(tmp_path) as diary:
        assert (diary.offsets, set(diary.log.state.groups)) == ({}, groups)


async def test_a_group_with_many_offsets_is_deleted(tmp_path: Path) -> None:
    async with diary_in(tmp_path, max_message_bytes=str(BATCH_BYTES_MAX)) as diary:
        fill(diary)
        answer = diary.log.decide(
            lambda ticket: diary.log.state.delete_groups([GROUP], ticket=ticket, now_ms=NOW),
            lambda code: DeleteGroupsResponse(
                results=[DeletableGroupResult(group_id=GROUP, error_code=code)]
            ),
        )
    assert isinstance(answer, DeleteGroupsResponse)
    assert [it.error_code for it in answer.results] == [ErrorCode.NONE]
    assert diary.reasons == [f"group {GROUP} is deleted"]


async def test_an_assignment_that_is_too_large_is_refused_and_nobody_is_told_otherwise(
    tmp_path: Path,
) -> None:
    async with diary_in(tmp_path, max_message_bytes=str(BATCH_BYTES_MAX)) as diary:
        member_id, generation = join(diary)
        diary.reasons.clear()
        large = SyncGroupRequestAssignment(member_id=member_id, assignment=bytes(BATCH_BYTES_MAX))
        request = SyncGroupRequest(
            group_id=GROUP, generation_id=generation, member_id=member_id, assignments=[large]
        )
        answer = diary.log.decide(
            lambda ticket: diary.log.state.sync_group(
                request, version=3, ticket=ticket, now_ms=NOW
            ),
            refused_sync,
        )
    assert isinstance(answer, SyncGroupResponse)
    assert answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert diary.reasons == []


async def test_a_partition_that_is_given_up_releases_what_its_members_hold(tmp_path: Path) -> None:
    async with diary_in(tmp_path) as diary:
        join(diary)
        of_coordinator = diary.log.state.member_bytes.of_coordinator
        assert of_coordinator.total > 0
        diary.log.resign()
        assert of_coordinator.total == 0


def join(diary: Diary) -> tuple[str, int]:
    """The first member of a group, which begins at once."""
    diary.log.state.settings = GroupSettings(initial_rebalance_delay_ms=0)
    request = JoinGroupRequest(
        group_id=GROUP,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id="",
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    answer = diary.log.decide(
        lambda ticket: diary.log.state.join_group(
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
