"""Classic members in consumer groups, upgrades and downgrades."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pykbroker.coordination.groups.consumer_settings import ConsumerGroupSettings, MigrationPolicy
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.heartbeat import HeartbeatRequest
from pykbroker_protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from pykbroker_protocol.messages.leave_group import MemberIdentity
from pykbroker_protocol.messages.sync_group import SyncGroupRequest
from tests.coordination.consumer.clients import ClassicConsumer, Consumer
from tests.coordination.consumer.world import GROUP, World

if TYPE_CHECKING:
    from pykbroker_protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse


def world_with_orders(policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL) -> World:
    world = World(ConsumerGroupSettings(migration_policy=policy))
    world.topics.put("orders", 4)
    return world


def mixed(policy: MigrationPolicy = MigrationPolicy.UPGRADE) -> tuple[World, ClassicConsumer]:
    """Anna (consumer protocol) and olga (classic protocol) share the topic."""
    world = world_with_orders(policy)
    anna = Consumer(world, "anna", ["orders"])
    olga = ClassicConsumer(world, "olga", ["orders"])
    for _ in range(4):
        anna.beat()
        world.pass_time(1_000)
        olga.beat()
    anna.beat()
    assert len(anna.owned) == len(olga.owned) == 2
    return world, olga


def knock(world: World) -> ConsumerGroupHeartbeatResponse:
    return world.heartbeat(Consumer(world, "anna", ["orders"]).next_request())


def test_a_group_of_connect_workers_cannot_be_upgraded() -> None:
    world = world_with_orders()
    protocols = [JoinGroupRequestProtocol(name="default", metadata=b"")]
    world.join(
        JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            member_id="",
            protocol_type="connect",
            protocols=protocols,
        ),
        version=3,
    )
    answer = knock(world)
    assert answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert answer.error_message == (
        "Cannot upgrade classic group fleet to consumer group because the group does not use the "
        "consumer embedded protocol."
    )


@pytest.mark.parametrize(
    ("policy", "code"),
    [
        (MigrationPolicy.BIDIRECTIONAL, ErrorCode.NONE),
        (MigrationPolicy.UPGRADE, ErrorCode.NONE),
        (MigrationPolicy.DOWNGRADE, ErrorCode.GROUP_ID_NOT_FOUND),
        (MigrationPolicy.DISABLED, ErrorCode.GROUP_ID_NOT_FOUND),
    ],
)
def test_the_migration_policy_decides_about_upgrades_of_groups_with_members(
    policy: MigrationPolicy, code: ErrorCode
) -> None:
    world = world_with_orders(policy)
    olga = ClassicConsumer(world, "", ["orders"])
    olga.beat()
    assert knock(world).error_code == code


def test_an_upgrade_logs_its_epoch() -> None:
    world = world_with_orders()
    ClassicConsumer(world, "", ["orders"]).beat()
    knock(world)
    assert world.state.epoch == 2
    changes = [it for it in world.reasons if "changed" in it]
    assert changes == ["group fleet: epoch 2, subscriptions changed"]


@pytest.mark.parametrize("policy", MigrationPolicy)
def test_a_group_without_members_may_change_its_protocol_at_any_time(
    policy: MigrationPolicy,
) -> None:
    world = world_with_orders(policy)
    olga = ClassicConsumer(world, "", ["orders"])
    olga.beat()
    olga.leave()
    assert knock(world).error_code == ErrorCode.NONE
    Consumer(world, "anna").leave()
    olga.member_id = ""
    olga.beat()
    assert world.find() is None
    assert len(olga.owned) == 4


def test_parked_requests_get_rebalance_in_progress_at_an_upgrade() -> None:
    world = world_with_orders()
    first, second = (ClassicConsumer(world, "", ["orders"]) for _ in range(2))
    first.beat()
    second.beat()
    waiting = world.tickets
    assert world.answers.get(waiting) is None
    assert knock(world).error_code == ErrorCode.NONE
    assert getattr(world.answers[waiting], "error_code", None) == ErrorCode.REBALANCE_IN_PROGRESS
    assert set(world.state.members) == {"anna", first.member_id, second.member_id}
    assert all(name[0].startswith("consumer-") or len(name) == 1 for name in world.timers)


def test_a_classic_member_needs_a_protocol_in_common_with_the_others() -> None:
    world, _ = mixed()
    request = ClassicConsumer(world, "other", ["orders"]).join_request()
    foreign = [JoinGroupRequestProtocol(name="mine", metadata=request.protocols[0].metadata)]
    for changed in (
        request.replace(protocols=foreign),
        request.replace(protocol_type="connect"),
        request.replace(protocols=[]),
        request.replace(protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")]),
    ):
        answer = world.join(changed)
        assert answer is not None
        assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_new_classic_member_gets_member_id_required() -> None:
    world, _ = mixed()
    request = ClassicConsumer(world, "", ["orders"]).join_request()
    answer = world.join(request)
    assert answer is not None
    assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert answer.member_id
    assert answer.member_id not in world.state.members
    old = world.join(request, version=3)
    assert old is not None
    assert old.error_code == ErrorCode.NONE
    assert old.member_id in world.state.members


HEARTBEATS = {
    "herself": ("olga", 3, None, ErrorCode.NONE),
    "at an older generation": ("olga", 2, None, ErrorCode.ILLEGAL_GENERATION),
    "a stranger": ("eve", 3, None, ErrorCode.UNKNOWN_MEMBER_ID),
    "of the next generation": ("anna", 3, None, ErrorCode.UNKNOWN_MEMBER_ID),
    "of an unknown name": ("olga", 3, "berth", ErrorCode.UNKNOWN_MEMBER_ID),
}


@pytest.mark.parametrize(
    ("member_id", "generation", "instance_id", "code"), HEARTBEATS.values(), ids=HEARTBEATS
)
def test_classic_members_are_checked_by_id_and_epoch(
    member_id: str, generation: int, instance_id: str | None, code: ErrorCode
) -> None:
    world, _ = mixed()
    assert world.state.epoch == 3
    beat = HeartbeatRequest(
        group_id=GROUP,
        generation_id=generation,
        member_id=member_id,
        group_instance_id=instance_id,
    )
    assert world.beat(beat).error_code == code
    sync = SyncGroupRequest(
        group_id=GROUP,
        generation_id=generation,
        member_id=member_id,
        group_instance_id=instance_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[],
    )
    answer = world.sync(sync)
    assert answer is not None
    assert answer.error_code == code
    assert bool(answer.assignment) == (code is ErrorCode.NONE)


def test_a_sync_for_another_protocol_is_refused() -> None:
    world, olga = mixed()
    answer = world.sync(
        SyncGroupRequest(
            group_id=GROUP,
            generation_id=olga.generation,
            member_id="olga",
            protocol_type="consumer",
            protocol_name="sticky",
            assignments=[],
        )
    )
    assert answer is not None
    assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_classic_members_must_sync_and_rejoin_within_their_timeouts() -> None:
    world, olga = mixed()
    joined = world.join(olga.join_request())
    assert joined is not None
    world.pass_time(40_000)
    beat = HeartbeatRequest(group_id=GROUP, generation_id=olga.generation, member_id="olga")
    world.beat(beat)
    Consumer(world, "anna", ["orders"]).beat()
    world.pass_time(20_000)
    assert "olga" not in world.state.members


def test_members_of_both_protocols_are_removed_by_leave_group() -> None:
    world, _ = mixed()
    answer = world.leave(
        MemberIdentity(member_id="olga"),
        MemberIdentity(member_id="eve"),
        MemberIdentity(member_id="anna"),
        MemberIdentity(member_id="", group_instance_id="berth"),
    )
    assert [it.error_code for it in answer.members] == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]
    assert world.group.is_empty


COMMITS = [
    ("anna", 3, 9, False, ErrorCode.NONE),
    ("anna", 3, 8, False, ErrorCode.UNSUPPORTED_VERSION),
    ("anna", 3, 4, True, ErrorCode.NONE),
    ("anna", 1, 9, False, ErrorCode.STALE_MEMBER_EPOCH),
    ("anna", 99, 9, False, ErrorCode.STALE_MEMBER_EPOCH),
    ("olga", 3, 2, False, ErrorCode.NONE),
    ("olga", 2, 9, False, ErrorCode.ILLEGAL_GENERATION),
    ("eve", 3, 9, False, ErrorCode.UNKNOWN_MEMBER_ID),
    ("", -1, 9, False, ErrorCode.UNKNOWN_MEMBER_ID),
    ("", -1, 4, True, ErrorCode.NONE),
]


@pytest.mark.parametrize(("member_id", "epoch", "version", "transactional", "code"), COMMITS)
def test_members_commit_at_their_epoch(
    member_id: str,
    epoch: int,
    version: int,
    transactional: bool,  # noqa: FBT001  # a column of the table
    code: ErrorCode,
) -> None:
    world, _ = mixed()
    refusal = world.group.refusal_of_commit(
        member_id=member_id,
        instance_id=None,
        generation=epoch,
        transactional=transactional,
        version=version,
    )
    assert refusal == code


def test_a_member_with_an_older_epoch_may_commit_partitions_it_kept() -> None:
    world, _ = mixed()
    topic_id = world.topics.by_name["orders"].topic_id

    def refusal(epoch: int, *partitions: int) -> ErrorCode:
        return world.group.refusal_of_commit(
            member_id="anna",
            instance_id=None,
            generation=epoch,
            transactional=False,
            version=10,
            committed_partitions=[(topic_id, it) for it in partitions],
        )

    assert refusal(2, 0, 1) is ErrorCode.NONE
    assert refusal(1, 0) is ErrorCode.STALE_MEMBER_EPOCH
    assert refusal(2, 0, 2) is ErrorCode.STALE_MEMBER_EPOCH
    assert refusal(4, 0) is ErrorCode.STALE_MEMBER_EPOCH


@pytest.mark.parametrize(
    ("member_id", "epoch", "code"),
    [
        ("anna", 3, ErrorCode.NONE),
        ("anna", 2, ErrorCode.STALE_MEMBER_EPOCH),
        ("olga", 2, ErrorCode.ILLEGAL_GENERATION),
        ("eve", 3, ErrorCode.UNKNOWN_MEMBER_ID),
        (None, -1, ErrorCode.NONE),
        ("", -1, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_members_fetch_offsets_at_their_epoch(
    member_id: str | None, epoch: int, code: ErrorCode
) -> None:
    world, _ = mixed()
    assert world.group.refusal_of_fetch(member_id=member_id, member_epoch=epoch) == code


def test_a_group_with_members_is_not_deleted_and_keeps_the_topics_it_reads() -> None:
    world, _ = mixed()
    assert world.group.refusal_of_deletion() is ErrorCode.NON_EMPTY_GROUP
    assert world.group.reads_topic("orders")
    assert not world.group.reads_topic("payments")


def test_described_members_have_their_protocol_type() -> None:
    world, _ = mixed()
    described = world.groups.describe_consumer_groups([GROUP, "nope"])
    assert [(it.error_code, it.group_state) for it in described] == [
        (ErrorCode.NONE, "Stable"),
        (ErrorCode.GROUP_ID_NOT_FOUND, ""),
    ]
    assert {it.member_id: it.member_type for it in described[0].members} == {"anna": 1, "olga": 0}
    assert all(it.assignment == it.target_assignment for it in described[0].members)
    assert described[1].error_message == "Group nope not found."


def test_classic_members_of_a_consumer_group_rebalance_when_a_topic_grows() -> None:
    world, olga = mixed(MigrationPolicy.UPGRADE)
    world.leave(MemberIdentity(member_id="anna"))
    for _ in range(3):
        world.pass_time(1_000)
        olga.beat()
    assert len(olga.owned) == 4
    world.topics.put("orders", 6)
    world.pass_time(1_000)
    assert olga.beat() is ErrorCode.REBALANCE_IN_PROGRESS
    olga.beat()
    assert len(olga.owned) == 6


def test_a_crash_during_a_downgrade_leaves_no_partition_unassigned() -> None:
    world, olga = mixed(MigrationPolicy.BIDIRECTIONAL)
    Consumer(world, "anna", ["orders"]).leave()
    assert world.find() is None
    world.restart()
    assert olga.beat() is ErrorCode.REBALANCE_IN_PROGRESS
    olga.beat()
    assert len(olga.owned) == 4
