"""Group requests of operators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker_protocol.messages.delete_groups import DeleteGroupsRequest
from pykbroker_protocol.messages.describe_groups import DescribeGroupsRequest
from pykbroker_protocol.messages.find_coordinator import FindCoordinatorRequest
from pykbroker_protocol.messages.list_groups import ListGroupsRequest
from tests.apis.groups.offsets import commit, fetch, of
from tests.apis.groups.transcript import conversation, gather, subscription

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.apis.groups.transcript import GroupTranscript

STATES = (
    "Stable",
    "stable",
    "STABLE",
    "Empty",
    "Dead",
    "PreparingRebalance",
    "CompletingRebalance",
)
OTHER_STATES = ("Unknown", "Assigning", "Reconciling", "NotReady", "no such state", "")
TYPES = ("classic", "Classic", "consumer", "share", "streams", "unknown", "no such type", "")


def list_ours(
    broker: GroupTranscript,
    version: int = 5,
    states: Sequence[str] = (),
    types: Sequence[str] = (),
) -> None:
    """Returns only groups of this conversation."""
    request = ListGroupsRequest(states_filter=states, types_filter=types)
    found = broker.quietly(request, version)
    ours = [it for it in found.groups if it.group_id.startswith(f"{broker.prefix}-")]
    broker.note(f"ListGroups v{version} {states} {types}", broker.plain(found.replace(groups=ours)))


@conversation
def groups_are_listed(broker: GroupTranscript) -> None:
    topic = broker.topic()
    broker.group("stable").members("member")
    (gone,) = broker.group("empty").members("gone")
    gone.leave()
    commit(broker.group("simple"), of(topic, {0: 1}))
    preparing, completing = broker.group("preparing"), broker.group("completing")
    leader, _ = preparing.members("leader", "second")
    leader.begin_join(protocols={"range": subscription("changed")})
    preparing.until("PreparingRebalance")
    newcomer = completing.member("newcomer")
    newcomer.enter()
    newcomer.hear()
    worker = broker.group("workers").member("worker")
    gather([worker], protocol_type="connect")
    broker.group("pending").member("newcomer").join(note="gets an id only")
    for version in range(6):
        list_ours(broker, version)
    for state in (*STATES, *OTHER_STATES):
        list_ours(broker, 4, states=[state])
        list_ours(broker, 5, states=[state])
    for kind in TYPES:
        list_ours(broker, 5, types=[kind])
    list_ours(broker, 5, states=["Stable", "Empty"], types=["classic"])
    list_ours(broker, 5, states=["Stable"], types=["consumer"])


@conversation
def groups_are_described(broker: GroupTranscript) -> None:
    group = broker.group()
    leader, static = group.member("leader"), group.member("static", instance="one")
    gather([leader, static])
    unknown = broker.group("nobody")
    for version in range(7):
        request = DescribeGroupsRequest(groups=[group.id, unknown.id, "", group.id])
        broker.ask(request, version)
        broker.ask(DescribeGroupsRequest(groups=()), version, note="no group")
    for version in range(3, 7):
        names = [group.id, unknown.id, ""]
        request = DescribeGroupsRequest(groups=names, include_authorized_operations=True)
        broker.ask(request, version, note="and what one may do")


@conversation
def groups_are_deleted(broker: GroupTranscript) -> None:
    topic = broker.topic()
    for version in range(3):
        stable, empty, simple, unknown = (
            broker.group(f"{it}-v{version}") for it in ("stable", "empty", "simple", "nobody")
        )
        (member,) = stable.members("member")
        commit(stable, of(topic, {0: 1}), member=member)
        (gone,) = empty.members("gone")
        commit(empty, of(topic, {0: 2}), member=gone)
        gone.leave()
        commit(simple, of(topic, {0: 3}))
        names = [stable.id, empty.id, simple.id, unknown.id]
        for _ in range(2):
            broker.ask(DeleteGroupsRequest(groups_names=names), version)
        broker.ask(DeleteGroupsRequest(groups_names=[""]), version, note="no name")
        broker.ask(DeleteGroupsRequest(groups_names=()), version, note="no group")
        for group in (stable, empty, simple):
            fetch(group)
            group.describe()
        member.heartbeat()
        list_ours(broker)


@conversation
def a_deleted_group_starts_at_generation_1(broker: GroupTranscript) -> None:
    group = broker.group()
    (member,) = group.members("member")
    member.leave()
    broker.ask(DeleteGroupsRequest(groups_names=[group.id]), 2)
    group.members("member")
    group.describe()


@conversation
def coordinators_of_groups_are_found(broker: GroupTranscript) -> None:
    group = broker.group()
    for version in range(4):
        broker.ask(FindCoordinatorRequest(key=group.id, key_type=0), version)
        broker.ask(FindCoordinatorRequest(key="", key_type=0), version, note="no name")
    for version in range(4, 7):
        keys = [group.id, "another", "", group.id]
        broker.ask(FindCoordinatorRequest(coordinator_keys=keys, key_type=0), version)
        broker.ask(FindCoordinatorRequest(coordinator_keys=(), key_type=0), version, note="none")
        request = FindCoordinatorRequest(coordinator_keys=["x"], key_type=9)
        broker.ask(request, version, note="of a kind that is not there")
