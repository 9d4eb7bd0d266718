"""Static members (KIP-345)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker_protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tests.apis.groups.transcript import DATA, conversation, gather, subscription

if TYPE_CHECKING:
    from tests.apis.groups.transcript import Group, GroupTranscript, Member


def static_group(broker: GroupTranscript, name: str = "group") -> tuple[Group, Member, Member]:
    group = broker.group(name)
    leader, second = group.member("one", instance="one"), group.member("two", instance="two")
    gather([leader, second])
    return group, leader, second


def successor(member: Member) -> Member:
    """Another process with the same group instance id."""
    return member.group.member(f"{member.name}-again", instance=member.instance)


@conversation
def a_static_member_needs_no_id_to_join(broker: GroupTranscript) -> None:
    for version in (5, 7, 9):
        group = broker.group(f"v{version}")
        member = group.member("one", instance="one")
        member.join(version)
        member.sync(min(version, 5), shares={member: b"all"})
        group.describe(min(version, 6))
        member.heartbeat()


@conversation
def a_static_follower_returns_without_a_rebalance(broker: GroupTranscript) -> None:
    for version in (5, 8, 9):
        group, leader, second = static_group(broker, f"v{version}")
        back = successor(second)
        back.join(version)
        back.sync(min(version, 5), note="finds its share")
        leader.heartbeat()
        second.heartbeat(note="the former one")
        second.sync(note="the former one")
        second.join(note="the former one")
        second.leave(note="the former one")
        back.heartbeat()
        group.describe()


@conversation
def a_static_leader_returns(broker: GroupTranscript) -> None:
    for version in (5, 8, 9):
        group, leader, second = static_group(broker, f"v{version}")
        back = successor(leader)
        back.join(version)
        back.sync(min(version, 5), note="asks for its share")
        second.heartbeat()
        leader.heartbeat(note="the former one")
        group.describe()


@conversation
def a_static_member_returns_with_another_subscription(broker: GroupTranscript) -> None:
    group, leader, second = static_group(broker)
    back = successor(second)
    back.begin_join(protocols={"range": subscription("other")}, note="other data, same protocol")
    back.hear()
    leader.heartbeat()
    again = successor(second)
    again.begin_join(protocols={"b": DATA, "range": DATA}, note="one more protocol")
    again.hear()
    leader.heartbeat()
    other = successor(second)
    other.join(protocols=("b",), note="not the protocol of the group")
    group.describe()


@conversation
def a_static_member_returns_during_a_rebalance(broker: GroupTranscript) -> None:
    group, leader, second = static_group(broker)
    third = group.member("three", instance="three")
    third.begin_join()
    group.until("PreparingRebalance", 3)
    back = successor(second)
    back.begin_join()
    third_back = successor(third)
    third_back.begin_join()
    third.hear()
    leader.join()
    back.hear()
    third_back.hear()
    back.begin_sync()
    back_again = successor(second)
    back_again.begin_join(note="before the shares are there")
    back.hear()
    group.until("PreparingRebalance", 3)
    group.describe(note="rebalances")


@conversation
def inconsistent_instance_and_member_ids(broker: GroupTranscript) -> None:
    group, leader, second = static_group(broker)
    for instance in ("two", "nobody", None, ""):
        second.instance = instance
        for claimed in (second.id, leader.id, "nobody", ""):
            second.heartbeat(member_id=claimed)
            second.sync(member_id=claimed)
    for instance, claimed in (("two", leader.id), ("two", "nobody"), ("nobody", second.id)):
        other = group.member("other", instance=instance)
        other.id = claimed
        other.join(note=f"says it is {instance}")
    group.describe()


@conversation
def static_members_are_removed_by_instance_id(broker: GroupTranscript) -> None:
    for version in (3, 5):
        group, leader, second = static_group(broker, f"v{version}")
        for instance, member_id in (
            ("nobody", ""),
            ("two", "nobody"),
            ("two", leader.id),
            ("two", ""),
            ("two", ""),
            ("", leader.id),
        ):
            identity = MemberIdentity(member_id=member_id, group_instance_id=instance)
            request = LeaveGroupRequest(group_id=group.id, members=[identity])
            leader.ask(request, version, note=f"removes {instance}")
        leader.heartbeat()
        second.heartbeat()
        group.describe()


@conversation
def a_static_member_and_others_in_one_group(broker: GroupTranscript) -> None:
    group = broker.group()
    leader, second = group.member("dynamic"), group.member("two", instance="two")
    gather([leader, second])
    back = successor(second)
    back.join()
    back.sync(note="finds its share")
    leader.heartbeat()
    leader.leave()
    back.heartbeat()
    back.join(note="leads now")
    group.describe()
