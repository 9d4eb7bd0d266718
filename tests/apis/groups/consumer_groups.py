"""Consumer groups (KIP-848): heartbeats and descriptions."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from pykbroker_protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from pykbroker_protocol.messages.delete_groups import DeleteGroupsRequest
from pykbroker_protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tests.apis.groups.administering import list_ours
from tests.apis.groups.consuming import (
    LEAVING,
    LEAVING_FOR_A_WHILE,
    Consumer,
    describe,
    holding,
    settle,
    until_target_is_of,
)
from tests.apis.groups.offsets import SOME_ID, commit, fetch, forget, of
from tests.apis.groups.transcript import conversation, gather, subscription
from tests.apis.transcript import READY_SECONDS_MAX

if TYPE_CHECKING:
    from tests.apis.groups.transcript import GroupTranscript

VERSIONS = (0, 1)
EPOCHS_SINCE = 9
"""The first version of OffsetFetch with member id and epoch."""


@conversation
def a_consumer_joins_stays_and_leaves(broker: GroupTranscript) -> None:
    topic = broker.topic(partitions=3)
    for version in VERSIONS:
        group = broker.group(f"v{version}")
        member = Consumer(group, "member", topic)
        describe(group, note="nobody")
        member.join(version, **({"member_id": ""} if version == 0 else {}))
        settle(member)
        member.beat(version, note="alone")
        member.beat(version, note="tells what it has", topic_partitions=member.holds)
        member.ask(
            member.joining(member_epoch=member.generation, topic_partitions=member.holds),
            version,
            "tells all",
        )
        for described in VERSIONS:
            describe(group, described)
            describe(group, described, permitted=True, note="and what one may do")
        group.describe(note="as a classic group")
        member.leave()
        member.beat(version, note="after it has left")
        describe(group, note="empty")
        list_ours(broker)


@conversation
def invalid_heartbeats(broker: GroupTranscript) -> None:
    topic = broker.topic()
    group = broker.group()
    stranger = Consumer(group, "stranger", topic)
    for version in VERSIONS:
        joins: dict[str, dict[str, Any]] = {
            "no group": {"group_id": ""},
            "blank group": {"group_id": "  "},
            "no member id": {"member_id": ""},
            "blank instance": {"instance_id": " "},
            "no instance": {"instance_id": ""},
            "no rack": {"rack_id": ""},
            "no rebalance timeout": {"rebalance_timeout_ms": -1},
            "no partitions": {"topic_partitions": None},
            "owns already": {"topic_partitions": holding({topic.id: [0]})},
            "no subscription": {"subscribed_topic_names": None},
            "unknown assignor": {"server_assignor": "no-such-assignor"},
            "empty assignor": {"server_assignor": ""},
            "epoch -3": {"member_epoch": -3},
        }
        if version == 0:
            del joins["no member id"]  # it would get an assignment
        for note, more in joins.items():
            stranger.join(version, note=note, **more)
        stranger.generation = 1
        stranger.beat(version, note="a stranger")
        stranger.beat(version, note="a strange instance", instance_id="one")
        stranger.beat(version, note="no member id", member_id="")
        stranger.generation = 0
    for epoch in (LEAVING, LEAVING_FOR_A_WHILE):
        stranger.leave(epoch=epoch, note=f"as a stranger with {epoch}")
        stranger.leave(epoch=epoch, instance_id="one", note=f"as a static stranger with {epoch}")
    describe(group)
    list_ours(broker)


@conversation
def invalid_regular_expressions(broker: GroupTranscript) -> None:
    group = broker.group()
    for number, regex in enumerate(("[", "(", "a{2,1}", "*")):
        stranger = Consumer(group, f"stranger-{number}")
        stranger.join(note=regex, subscribed_topic_names=None, subscribed_topic_regex=regex)


@conversation
def regular_expressions_and_internal_topics(broker: GroupTranscript) -> None:
    """Omits epochs, because Apache Kafka resolves regular expressions after the join."""
    topic = broker.topic(partitions=2)
    group = broker.group()  # the coordinator is found: __consumer_offsets exists
    member = Consumer(group, "member")
    regex = f"^({topic.name}|__consumer_offsets)$"
    member.quietly(member.joining(subscribed_topic_names=None, subscribed_topic_regex=regex))
    deadline = time.monotonic() + READY_SECONDS_MAX
    while len(member.owned) < 2:
        assert time.monotonic() < deadline, member.owned
        member.quietly(member.living(topic_partitions=member.holds))
        time.sleep(0.05)
    list_ours(broker)


@conversation
def wrong_member_epochs(broker: GroupTranscript) -> None:
    topic = broker.topic(partitions=2)
    group = broker.group()
    first, second = Consumer(group, "first", topic), Consumer(group, "second", topic)
    first.join()
    settle(first)
    second.join()
    settle(first, second)
    epoch = first.generation
    for other in (epoch - 1, epoch + 1, 1):
        first.beat(note=f"epoch {other - epoch}", member_epoch=other)
        first.beat(
            note=f"epoch {other - epoch} and what it has",
            member_epoch=other,
            topic_partitions=first.holds,
        )
        first.beat(
            note=f"epoch {other - epoch} and too much",
            member_epoch=other,
            topic_partitions=holding({topic.id: [0, 1]}),
        )
    first.beat(note="a topic that is not there", topic_partitions=holding({SOME_ID: [0]}))
    first.beat(note="still there")
    describe(group)


@conversation
def partitions_are_assigned_after_their_revocation(broker: GroupTranscript) -> None:
    topic = broker.topic(partitions=4)
    group = broker.group()
    first, second = Consumer(group, "first", topic), Consumer(group, "second", topic)
    first.join()
    settle(first)
    second.join()
    until_target_is_of(group, 2, second)
    second.beat(note="waits")
    first.beat(note="is to give up two", topic_partitions=holding({topic.id: [0, 1, 2, 3]}))
    describe(group, note="one gives up")
    first.beat(note="has not yet", topic_partitions=holding({topic.id: [0, 1, 2, 3]}))
    second.beat(note="waits on")
    settle(first, second)
    describe(group, note="all have theirs")
    second.leave()
    until_target_is_of(group, 1, first)
    settle(first)
    describe(group, note="one is left")


@conversation
def subscriptions_change(broker: GroupTranscript) -> None:
    one, two = broker.topic("one", partitions=2), broker.topic("two", partitions=2)
    group = broker.group()
    member = Consumer(group, "member", one)
    member.join()
    settle(member)
    member.beat(note="reads two topics", subscribed_topic_names=[one.name, two.name])
    settle(member)
    describe(group)
    member.beat(note="reads the other", subscribed_topic_names=[two.name])
    settle(member)
    describe(group)
    member.beat(note="reads nothing", subscribed_topic_names=[])
    settle(member)
    describe(group)
    member.beat(note="reads what is not there", subscribed_topic_names=["no-such-topic"])
    settle(member)
    describe(group)
    member.beat(note="of another rack", rack_id="rack")
    settle(member)
    describe(group)
    member.beat(note="wants another assignor", server_assignor="range")
    settle(member)
    describe(group)


@conversation
def static_consumers_leave_and_return(broker: GroupTranscript) -> None:
    topic = broker.topic(partitions=2)
    group = broker.group()
    first = Consumer(group, "first", topic, instance="one")
    other = Consumer(group, "other", topic, instance="two")
    first.join()
    settle(first)
    other.join()
    settle(first, other)
    rival = Consumer(group, "rival", topic, instance="one")
    rival.join(note="in an occupied place")
    first.leave(epoch=LEAVING_FOR_A_WHILE)
    describe(group, note="one is away")
    first.beat(note="is away")
    other.leave(epoch=LEAVING_FOR_A_WHILE, instance_id="one", note="in another's name")
    rival.join(note="in a place that is free")
    first.beat(note="is followed by another")
    first.leave(note="is followed by another")
    settle(other, rival)
    describe(group, note="another has the place")
    rival.leave()
    settle(other)
    describe(group, note="for good")


@conversation
def members_of_both_protocols_and_operators(broker: GroupTranscript) -> None:
    topic = broker.topic(partitions=2)
    group = broker.group()
    consumer = Consumer(group, "consumer", topic)
    consumer.join()
    settle(consumer)
    list_ours(broker)
    broker.ask(DeleteGroupsRequest(groups_names=[group.id]), 2)
    forget(group, {topic.name: [0]}, note="is read")
    leaving = [
        MemberIdentity(member_id=consumer.id),
        MemberIdentity(member_id="nobody"),
        MemberIdentity(member_id="", group_instance_id="nobody"),
    ]
    for version in (3, 4, 5):
        request = LeaveGroupRequest(group_id=group.id, members=leaving)
        broker.ask(request, version, note="an operator removes a member")
    consumer.beat(note="after it was to be removed")
    for version in (0, 2):
        request = LeaveGroupRequest(group_id=group.id, member_id=consumer.id)
        broker.ask(request, version, note="of old")
    describe(group)
    consumer.leave()
    broker.ask(DeleteGroupsRequest(groups_names=[group.id]), 2, note="empty")
    describe(group, note="gone")


@conversation
def operators_remove_static_consumers(broker: GroupTranscript) -> None:
    topic = broker.topic(partitions=2)
    group = broker.group()
    consumer = Consumer(group, "consumer", topic, instance="one")
    consumer.join()
    settle(consumer)
    leaving = [MemberIdentity(member_id="", group_instance_id="one")]
    request = LeaveGroupRequest(group_id=group.id, members=leaving)
    broker.ask(request, 5, note="an operator removes a static member")
    consumer.beat(note="after it was to be removed")
    describe(group)


@conversation
def offsets_of_consumers_with_epochs(broker: GroupTranscript) -> None:
    topic = broker.topic(partitions=2)
    group = broker.group()
    consumer: Any = Consumer(group, "consumer", topic)
    consumer.join()
    settle(consumer)
    for version in (8, 9, 10):
        commit(group, of(topic, {0: version}), member=consumer, version=version)
        commit(group, of(topic, {1: 1}), version=version, note="nobody")
        for epoch in (-1, 0, 7):
            commit(
                group,
                of(topic, {1: 1}),
                member=consumer,
                version=version,
                generation_id_or_member_epoch=epoch,
                note=f"epoch {epoch}",
            )
    for version in (8, 9, 10):
        fetch(group, version=version)
        for member_id, epoch in ((consumer.id, consumer.generation), (consumer.id, 7), ("x", 1)):
            if version >= EPOCHS_SINCE:
                fetch(group, version=version, member_id=member_id, member_epoch=epoch)


@conversation
def many_groups_are_described(broker: GroupTranscript) -> None:
    topic = broker.topic()
    classic, simple, unknown = (broker.group(it) for it in ("classic", "simple", "nobody"))
    gather([classic.member("member")], protocols={"range": subscription(topic.name)})
    commit(simple, of(topic, {0: 1}))
    for version in VERSIONS:
        names = [classic.id, simple.id, unknown.id, "", unknown.id]
        for permitted in (False, True):
            request = ConsumerGroupDescribeRequest(
                group_ids=names, include_authorized_operations=permitted
            )
            broker.ask(request, version, note=f"{permitted}")
        request = ConsumerGroupDescribeRequest(group_ids=(), include_authorized_operations=False)
        broker.ask(request, version, note="no group")
