"""Limits on the memory of group members, and its release."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pykbroker.coordination.groups.member_bytes import MEMBER_OVERHEAD_BYTES, MemberBytes
from pykbroker.coordination.groups.registry import Groups
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from pykbroker_protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.coordination.consumer.clients import Consumer
from tests.coordination.consumer.world import CLASSIC_SETTINGS, GROUP, World
from tests.coordination.group_world import NO_TOPICS, counted_again

MEMBER_MAX = 10_000
ALL_MAX = 40_000
SETTINGS = replace(CLASSIC_SETTINGS, member_bytes_max=MEMBER_MAX, all_members_bytes_max=ALL_MAX)
ANSWER_TIMEOUT_MS = 400_000
"""Longer than any session timeout, and than the wait for a first response."""


def bounded_world() -> World:
    world = World()
    world.groups.settings = SETTINGS
    world.topics.put("orders", 6)
    return world


def held(world: World) -> int:
    total = world.groups.member_bytes.of_coordinator.total
    assert total == counted_again(world.groups)
    return total


def join(
    world: World, metadata_bytes: int, *, member_id: str = "", version: int = 3, group: str = GROUP
) -> ErrorCode:
    request = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=30_000,
        rebalance_timeout_ms=30_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=bytes(metadata_bytes))],
    )
    answer = world.join(request, version=version)
    return ErrorCode.NONE if answer is None else ErrorCode(answer.error_code)  # type: ignore[call-arg]  # looks a member up


def test_a_member_that_is_too_large_is_rejected_and_creates_no_group() -> None:
    world = bounded_world()
    assert join(world, MEMBER_MAX) is ErrorCode.MESSAGE_TOO_LARGE
    assert not world.groups.groups
    assert held(world) == 0
    assert "group.member.max.bytes" in world.reasons[-1]


def group_of(world: Any) -> Any:
    group = world.groups.classic(GROUP)
    assert group is not None
    return group


def test_a_member_with_very_many_protocols_is_refused() -> None:
    world = bounded_world()
    request = JoinGroupRequest(
        group_id=GROUP,
        session_timeout_ms=30_000,
        member_id="",
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name=chr(it), metadata=b"") for it in range(200)],
    )
    answer = world.join(request, version=3)
    assert answer is not None
    assert answer.error_code == ErrorCode.MESSAGE_TOO_LARGE


def test_members_of_all_groups_together_are_bounded() -> None:
    world = bounded_world()
    codes = [join(world, 8_000, group=f"g{it}") for it in range(6)]
    assert codes == [ErrorCode.NONE] * 4 + [ErrorCode.GROUP_MAX_SIZE_REACHED] * 2
    assert "group.coordinator.members.max.bytes" in world.reasons[-1]
    assert held(world) <= ALL_MAX
    world.pass_time(ANSWER_TIMEOUT_MS)
    assert held(world) == 0
    assert join(world, 8_000) is ErrorCode.NONE


def test_many_small_members_reach_the_bound_too() -> None:
    world = bounded_world()
    codes = [join(world, 0, group=f"g{it}") for it in range(ALL_MAX // MEMBER_OVERHEAD_BYTES + 1)]
    assert codes[-1] is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_an_allocated_member_id_counts_until_its_session_timeout() -> None:
    world = bounded_world()
    assert join(world, 10, version=5) is ErrorCode.MEMBER_ID_REQUIRED
    assert held(world) > MEMBER_OVERHEAD_BYTES
    world.pass_time(ANSWER_TIMEOUT_MS)
    assert held(world) == 0


def test_a_member_may_shrink_but_not_grow_beyond_the_bound() -> None:
    world = bounded_world()
    assert join(world, 8_000) is ErrorCode.NONE
    [member_id] = group_of(world).members
    assert join(world, 9_900, member_id=member_id) is ErrorCode.MESSAGE_TOO_LARGE
    assert join(world, 100, member_id=member_id) is ErrorCode.NONE
    assert held(world) < 2_000


@pytest.mark.parametrize(
    ("sizes", "code"),
    [
        ([8_000], ErrorCode.NONE),
        ([MEMBER_MAX], ErrorCode.MESSAGE_TOO_LARGE),
        ([8_000] * 5, ErrorCode.GROUP_MAX_SIZE_REACHED),
    ],
)
def test_assignments_of_a_leader_count_for_their_members(sizes: list[int], code: ErrorCode) -> None:
    world = bounded_world()
    for _ in sizes:
        assert join(world, 0) is ErrorCode.NONE
        world.pass_time(0)
    group = group_of(world)
    for member_id in list(group.members):
        join(world, 0, member_id=member_id)
    before = held(world)
    assignments = [
        SyncGroupRequestAssignment(member_id=member_id, assignment=bytes(size))
        for member_id, size in zip(group.members, sizes, strict=True)
    ]
    answer = world.sync(
        SyncGroupRequest(
            group_id=GROUP,
            generation_id=group.generation,
            member_id=group.leader or "",
            protocol_type="consumer",
            protocol_name="range",
            assignments=assignments,
        )
    )
    assert answer is not None
    assert answer.error_code == code
    assert held(world) == before + (sum(sizes) if code is ErrorCode.NONE else 0)


def test_a_consumer_with_too_many_names_is_rejected_and_creates_no_group() -> None:
    world = bounded_world()
    anna = Consumer(world, "anna", [f"topic-{it}" for it in range(200)])
    answer = world.heartbeat_answer(anna.send())
    assert answer.error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert "group.member.max.bytes" in str(answer.error_message)
    assert held(world) == 0
    assert not world.groups.groups


@pytest.mark.parametrize(
    ("names", "regex"), [([], "x" * 5_000), ([f"topic-{it}" for it in range(60)], None)]
)
def test_the_memory_of_a_subscription_is_released_when_the_member_leaves(
    names: list[str], regex: str | None
) -> None:
    world = bounded_world()
    anna = Consumer(world, "anna", names, regex)
    assert anna.beat() is ErrorCode.NONE
    assert held(world) > 4_000
    anna.topics, anna.regex = ["orders"], ""
    anna.start_afresh()
    assert anna.beat() is ErrorCode.NONE
    assert MEMBER_OVERHEAD_BYTES < held(world) < 2_000
    anna.leave()
    assert held(world) == 0


def test_heartbeats_of_members_succeed_at_the_memory_limit() -> None:
    world = bounded_world()
    anna = Consumer(world, "anna", ["orders"])
    anna.beat()
    while join(world, 0, group=f"g{world.tickets}") is ErrorCode.NONE:
        pass
    assert anna.beat() is ErrorCode.NONE
    bob = Consumer(world, "bob", ["orders"])
    answer = world.heartbeat_answer(bob.send())
    assert answer.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED


def test_a_partition_that_moves_away_releases_its_share_of_the_bound() -> None:
    shared = MemberBytes()
    world, others = World(), Groups(SETTINGS, World().settings, NO_TOPICS, shared)
    world.groups = Groups(SETTINGS, world.settings, world.topics, shared)
    others.member_bytes.note("g", 39_000)
    assert join(world, 5_000) is ErrorCode.GROUP_MAX_SIZE_REACHED
    others.member_bytes.clear()
    assert join(world, 5_000) is ErrorCode.NONE
