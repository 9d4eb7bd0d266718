"""Rules that transcripts do not cover: votes, timeouts, and logs of other brokers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pykbroker.coordination.groups.classic_group import ClassicGroup
from pykbroker.coordination.groups.classic_member import Member, member_id_for
from pykbroker.coordination.groups.classic_state import GroupState
from pykbroker.coordination.groups.settings import GroupSettings
from pykbroker_protocol.consumer_protocol import encode_topics
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.internal_topics.classic_groups import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
)
from pykbroker_protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from pykbroker_protocol.messages.leave_group import LeaveGroupRequest
from pykbroker_protocol.messages.list_groups import ListGroupsRequest
from pykbroker_protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from tests.coordination.group_world import World

if TYPE_CHECKING:
    from pykbroker.coordination.outcome import Ticket


def join(
    world: World, name: str, *, version: int = 3, rebalance_ms: int = 8_000, session_ms: int = 9_000
) -> Ticket:
    request = JoinGroupRequest(
        group_id="fleet",
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=rebalance_ms,
        member_id="",
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    return world.ask(
        lambda ticket: world.groups.join_group(
            request,
            version=version,
            ticket=ticket,
            client_id=name,
            client_host="/127.0.0.1",
            new_member_id=member_id_for(request, name, "1"),
            now_ms=world.now_ms,
        )
    )


def leave(world: World, member_id: str) -> None:
    request = LeaveGroupRequest(group_id="fleet", member_id=member_id)
    world.ask(
        lambda ticket: world.groups.leave_group(
            request, version=2, ticket=ticket, now_ms=world.now_ms
        )
    )


def fleet(world: World) -> ClassicGroup:
    group = world.groups.classic("fleet")
    assert group is not None
    return group


# --- votes


@pytest.mark.parametrize(
    ("lists", "elected"),
    [
        (["a"], "a"),
        (["b,a"], "b"),
        (["a,b", "b"], "b"),
        (["a,b", "b,a", "b,a"], "b"),
        (["a,b,c", "c,b", "b,c"], "b"),
        (["a,b", "b,a"], "a"),
    ],
)
def test_members_elect_a_protocol_that_all_support(lists: list[str], elected: str) -> None:
    group = ClassicGroup("fleet")
    for number, protocols in enumerate(lists):
        group.add(
            Member(
                member_id=str(number),
                instance_id=None,
                client_id="",
                client_host="",
                session_timeout_ms=1,
                rebalance_timeout_ms=1,
                protocols=dict.fromkeys(protocols.split(","), b""),
            )
        )
    assert group.elect_protocol() == elected


# --- time


def test_the_initial_delay_ends_at_the_rebalance_timeout() -> None:
    world = World(GroupSettings(initial_rebalance_delay_ms=3_000))
    for number in range(5):
        join(world, f"client{number}", rebalance_ms=8_000)
        world.pass_time(1_900)
    assert fleet(world).state is GroupState.COMPLETING_REBALANCE
    assert len(fleet(world).members) == 5
    assert world.reasons[-1].startswith("group fleet forms generation 1 (members: 5,")


def test_without_an_initial_delay_the_first_member_gets_its_response_immediately() -> None:
    world = World(GroupSettings(initial_rebalance_delay_ms=0))
    join(world, "anna")
    (reply,) = world.replies
    assert isinstance(reply.response, JoinGroupResponse)
    assert reply.response.generation_id == 1


def test_version_0_has_one_timeout() -> None:
    world = World(GroupSettings())
    join(world, "anna", version=0, rebalance_ms=-1, session_ms=7_000)
    assert fleet(world).rebalance_timeout_ms == 7_000


def test_a_new_member_that_waits_too_long_gets_unknown_member_id() -> None:
    world = World(GroupSettings(initial_rebalance_delay_ms=0, newcomer_join_timeout_ms=5_000))
    join(world, "anna")
    join(world, "bob")
    world.replies.clear()
    world.pass_time(5_000)
    (reply,) = world.replies
    assert isinstance(reply.response, JoinGroupResponse)
    assert reply.response.error_code == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("by_its_own_word", [True, False])
def test_a_group_whose_last_member_left_on_a_full_disk_becomes_empty(
    *, by_its_own_word: bool
) -> None:
    world = World(GroupSettings(initial_rebalance_delay_ms=0))
    join(world, "anna")
    world.disk_is_full = True
    if by_its_own_word:
        leave(world, "anna-1")
    world.pass_time(20_000)
    assert not fleet(world).members
    assert fleet(world).state is GroupState.PREPARING_REBALANCE
    world.disk_is_full = False
    world.pass_time(20_000)
    assert fleet(world).state is GroupState.EMPTY
    assert world.replayed().groups["fleet"].is_empty


# --- requests that say too little


@pytest.mark.parametrize(
    ("version", "code"),
    [(4, ErrorCode.UNKNOWN_MEMBER_ID), (5, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)],
)
def test_sync_group_from_version_5_requires_the_protocol(version: int, code: ErrorCode) -> None:
    world = World(GroupSettings())
    request = SyncGroupRequest(group_id="fleet", generation_id=1, member_id="anna", assignments=())
    world.ask(
        lambda ticket: world.groups.sync_group(
            request, version=version, ticket=ticket, now_ms=world.now_ms
        )
    )
    (reply,) = world.replies
    assert isinstance(reply.response, SyncGroupResponse)
    assert reply.response.error_code == code


# --- logs


def subscription(*topics: str) -> bytes:
    return encode_topics(topics, 0)


def replay_group(
    world: World, subscriptions: list[bytes], *, protocol_type: str = "consumer"
) -> None:
    members = [
        MemberMetadata(
            member_id=f"member{number}",
            client_id="c",
            client_host="/h",
            session_timeout=10_000,
            subscription=it,
            assignment=b"a",
        )
        for number, it in enumerate(subscriptions)
    ]
    value = GroupMetadataValue(
        protocol_type=protocol_type,
        generation=7,
        protocol="range",
        leader="member0",
        members=members,
    )
    world.groups.replay(GroupMetadataKey(group="fleet"), value)
    world.carry_out(world.groups.loaded(world.now_ms))


@pytest.mark.parametrize(
    ("subscriptions", "protocol_type", "read", "unread"),
    [
        ([subscription("a"), subscription("a", "b")], "consumer", ["a", "b"], ["c"]),
        ([subscription("a"), b"\0"], "consumer", ["a", "c"], []),
        ([subscription("a"), b"\0\0\0\0\0\5"], "consumer", ["a", "c"], []),
        ([b"\0\7" + subscription("a")[2:] + bytes(12)], "consumer", ["a"], ["b"]),
        ([b"anything"], "connect", [], ["a"]),
    ],
)
def test_subscribed_topics_are_those_of_the_members(
    subscriptions: list[bytes], protocol_type: str, read: list[str], unread: list[str]
) -> None:
    world = World(GroupSettings())
    replay_group(world, subscriptions, protocol_type=protocol_type)
    assert [it for it in read + unread if fleet(world).reads_topic(it)] == read


def test_loaded_members_get_a_new_session_timeout() -> None:
    world = World(GroupSettings())
    replay_group(world, [b"", b""])
    assert fleet(world).rebalance_timeout_ms == 10_000, "records of old have one timeout"
    world.pass_time(9_999)
    assert len(fleet(world).members) == 2
    world.pass_time(1)
    assert fleet(world).state is GroupState.EMPTY


def test_a_group_larger_than_allowed_rebalances_after_loading() -> None:
    world = World(GroupSettings(members_max=1))
    replay_group(world, [b"", b""])
    assert fleet(world).state is GroupState.PREPARING_REBALANCE


def test_a_tombstone_deletes_a_group() -> None:
    world = World(GroupSettings())
    replay_group(world, [b""])
    world.groups.replay(GroupMetadataKey(group="fleet"), None)
    assert world.groups.list_groups(ListGroupsRequest()) == []


@pytest.mark.parametrize(
    ("states", "kinds", "found"),
    [
        ([], [], 1),
        (["stable"], [], 1),
        (["STABLE", "Empty"], ["Classic"], 1),
        (["Empty"], [], 0),
        ([], ["consumer"], 0),
        (["nonsense"], [], 0),
    ],
)
def test_groups_are_listed_by_state_and_kind(
    states: list[str], kinds: list[str], found: int
) -> None:
    world = World(GroupSettings())
    replay_group(world, [b""])
    request = ListGroupsRequest(states_filter=states, types_filter=kinds)
    listed = world.groups.list_groups(request)
    assert [(it.group_id, it.group_type) for it in listed] == [("fleet", "classic")] * found
