"""Members of classic groups join, rebalance and leave."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker_protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tests.apis.groups.transcript import conversation, gather, subscription

if TYPE_CHECKING:
    from tests.apis.groups.transcript import GroupTranscript

ROUND = ("roundrobin", "range")


@conversation
def one_member_joins_in_each_version(broker: GroupTranscript) -> None:
    for version in range(10):
        group = broker.group(f"v{version}")
        member = group.member("one")
        member.join(version)
        if version >= 4:
            member.join(version)
        sync_version = min(version, 5)
        member.sync(sync_version, shares={member: b"all"})
        member.heartbeat(min(version, 4))
        group.describe(min(version, 6))
        member.leave(min(version, 5))
        member.heartbeat(min(version, 4), note="has left")
        group.describe(min(version, 6))


@conversation
def three_members_share(broker: GroupTranscript) -> None:
    group = broker.group()
    leader, second, third = group.members("leader", "second", "third")
    group.describe()
    for member in (leader, second, third):
        member.heartbeat()
    second.sync(note="asks for its share again")
    leader.sync(note="the leader asks for its share again", shares={second: b"other"})
    second.leave()
    leader.heartbeat(note="after a departure")
    leader.begin_join()
    group.until("PreparingRebalance")
    third.heartbeat(note="during the rebalance")
    third.join()
    leader.hear()
    group.describe(note="all have joined")
    third.heartbeat(note="before the shares are there")
    third.begin_sync()
    leader.sync(shares={leader: b"half", third: b"half"})
    third.hear()
    group.describe()


@conversation
def the_leader_leaves(broker: GroupTranscript) -> None:
    group = broker.group()
    leader, second = group.members("leader", "second")
    leader.leave()
    second.heartbeat()
    second.join(note="leads now")
    group.describe()


@conversation
def members_without_an_assignment(broker: GroupTranscript) -> None:
    group = broker.group()
    leader, second = group.members("leader", "second")
    leader.begin_join(note="again")
    group.until("PreparingRebalance")
    second.join(note="again")
    leader.hear()
    leader.sync(shares={leader: b"all"})
    second.sync(note="is left without")
    group.describe()


@conversation
def a_repeated_join_has_the_same_response(broker: GroupTranscript) -> None:
    group = broker.group()
    leader, second = group.members("leader", "second")
    more, most = {"range": subscription("more")}, {"range": subscription("most")}
    second.join(note="unchanged, in a stable group")
    second.heartbeat()
    second.begin_join(note="changed", protocols=more)
    group.until("PreparingRebalance")
    leader.heartbeat()
    leader.join()
    second.hear()
    second.join(note="unchanged, before there are shares", protocols=more)
    leader.join(note="the leader, before shares are there")
    group.describe()
    second.begin_join(note="changed, before shares are there", protocols=most)
    group.until("PreparingRebalance")
    leader.sync(note="of a generation that is over", shares={leader: b"all"})
    leader.join()
    second.hear()


@conversation
def a_rejoining_leader_starts_a_rebalance(broker: GroupTranscript) -> None:
    group = broker.group()
    leader, second = group.members("leader", "second")
    leader.begin_join(note="unchanged")
    group.until("PreparingRebalance")
    second.heartbeat()
    second.begin_sync(note="in a rebalance")
    second.hear()
    second.join()
    leader.hear()


@conversation
def the_protocol_is_chosen_by_vote(broker: GroupTranscript) -> None:
    offers = {
        "all-first": (("range", "roundrobin"), ("range", "roundrobin"), ROUND),
        "only-one-common": (("range", "roundrobin"), ("roundrobin",), ROUND),
        "majority": (("a", "b", "c"), ("b", "c", "a"), ("b", "a", "c")),
        "not-common": (("x", "b"), ("b", "y"), ("z", "b")),
    }
    for name, (first_offer, second_offer, third_offer) in offers.items():
        group = broker.group(name)
        first, second, third = (group.member(it) for it in ("first", "second", "third"))
        first.enter(protocols=first_offer)
        first.hear()
        second.enter(protocols=second_offer)
        group.until("PreparingRebalance", 2)
        third.enter(protocols=third_offer)
        group.until("PreparingRebalance", 3)
        first.join(protocols=first_offer)
        second.hear()
        third.hear()
        chosen = "roundrobin" if name == "only-one-common" else "range"
        first.sync(protocol_name=chosen, note=f"says {chosen}")
        group.describe()


@conversation
def inconsistent_protocols(broker: GroupTranscript) -> None:
    group = broker.group()
    (leader,) = group.members("leader")
    stranger = group.member("stranger")
    for version in (0, 3, 4, 9):
        stranger.join(version, protocols=("cooperative-sticky",), note="no protocol in common")
        stranger.join(version, protocol_type="connect", note="another kind of group")
        stranger.join(version, protocols=(), note="no protocol at all")
        stranger.join(version, protocol_type="", note="no kind of group")
    leader.heartbeat()
    leader.sync(protocol_name="other", note="another protocol")
    leader.sync(protocol_type="other", note="another kind")
    leader.sync(protocol_name=None, protocol_type=None, note="no names")
    leader.sync(protocol_name=None, note="no protocol name")
    leader.join(protocols=("other",), note="the only member changes its mind")
    group.describe()


@conversation
def first_members_without_protocols(broker: GroupTranscript) -> None:
    for version in (0, 4, 7, 9):
        newcomer = broker.group(f"v{version}").member("newcomer")
        newcomer.join(version, protocols=())
        newcomer.join(version, protocol_type="")
        newcomer.join(version, protocol_type="", protocols=())
        with broker.known_difference("A rejected first member creates no group"):
            newcomer.group.describe(min(version, 6))


@conversation
def a_group_of_connect_workers(broker: GroupTranscript) -> None:
    group = broker.group()
    worker = group.member("worker")
    gather([worker], protocol_type="connect", protocols={"sessioned": b"1", "compatible": b"2"})
    worker.sync(protocol_type="connect", protocol_name="sessioned")
    group.describe()
    worker.leave()
    group.describe(note="what kind of group it was")
    consumer = group.member("consumer")
    consumer.enter()
    consumer.hear()
    group.describe(note="another kind now")


@conversation
def several_members_leave_in_one_request(broker: GroupTranscript) -> None:
    for version in (3, 4, 5):
        group = broker.group(f"v{version}")
        leader, second, third = group.members("leader", "second", "third")
        leaving = [
            MemberIdentity(member_id=it, reason="enough")
            for it in (second.id, "nobody", third.id, second.id)
        ]
        request = LeaveGroupRequest(group_id=group.id, members=leaving)
        leader.ask(request, version, note="for others")
        leader.heartbeat()
        group.describe()
        leader.ask(LeaveGroupRequest(group_id=group.id, members=()), version, note="nobody")
        leader.leave(version)
        leader.leave(version, note="twice")
        group.describe()


@conversation
def a_rebalance_waits_for_members_with_a_pending_id(broker: GroupTranscript) -> None:
    group = broker.group()
    (leader,) = group.members("leader")
    first, second = group.member("first"), group.member("second")
    first.join(note="gets an id")
    second.join(note="gets an id")
    group.describe(note="nobody has joined yet")
    leader.heartbeat()
    first.heartbeat(generation_id=0, note="has an id only")
    first.sync(generation_id=0, note="has an id only")
    leader.begin_join()
    group.until("PreparingRebalance", 1)
    first.begin_join()
    group.until("PreparingRebalance", 2)
    second.leave(note="goes before it came")
    leader.hear()
    first.hear()
    second.join(note="with the id that it gave back")
    group.describe()


@conversation
def generations_continue_in_an_empty_group(broker: GroupTranscript) -> None:
    group = broker.group()
    for name in ("first", "second", "third"):
        (member,) = group.members(name)
        member.leave()
        group.describe()


@conversation
def a_joining_member_leaves(broker: GroupTranscript) -> None:
    group = broker.group()
    leader, second = group.members("leader", "second")
    third = group.member("third")
    third.enter()
    group.until("PreparingRebalance", 3)
    leaving = LeaveGroupRequest(group_id=group.id, members=[MemberIdentity(member_id=third.id)])
    leader.ask(leaving, 5, note="for the third")
    third.hear()
    leader.begin_join()
    second.join()
    leader.hear()


@conversation
def sync_waits_for_the_leader(broker: GroupTranscript) -> None:
    group = broker.group()
    leader, second = group.member("leader"), group.member("second")
    leader.enter()
    leader.hear()
    second.enter()
    group.until("PreparingRebalance", 2)
    leader.join()
    second.hear()
    second.begin_sync()
    third = group.member("third")
    third.enter()
    group.until("PreparingRebalance", 3)
    second.hear()
    second.begin_join()
    leader.join()
    second.hear()
    third.hear()
