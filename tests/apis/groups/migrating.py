"""Groups with members that migrate between the two protocols."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker_protocol.consumer_protocol import encode_assignment
from tests.apis.groups.administering import list_ours
from tests.apis.groups.consuming import Consumer, describe, settle
from tests.apis.groups.offsets import commit, fetch, of
from tests.apis.groups.transcript import conversation, gather, subscription

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.apis.groups.transcript import GroupTranscript, Member
    from tests.apis.transcript import Topic


def enter_alone(member: Member, topic: Topic, partitions: Sequence[int]) -> None:
    """A classic group with one member and a valid ConsumerProtocol assignment."""
    member.enter(protocols={"range": subscription(topic.name)})
    member.hear()
    member.sync(shares={member: encode_assignment({topic.name: partitions}, 0)})


@conversation
def a_consumer_joins_a_classic_group(broker: GroupTranscript) -> None:
    topic = broker.topic(partitions=2)
    group = broker.group()
    classic = group.member("classic")
    enter_alone(classic, topic, [0, 1])
    commit(group, of(topic, {0: 1}), member=classic)
    newcomer = Consumer(group, "newcomer", topic)
    newcomer.join(note="a group of a classic member")
    describe(group)
    group.describe()
    list_ours(broker)
    classic.heartbeat(note="has company")
    commit(group, of(topic, {0: 2}), member=classic)
    fetch(group)
    newcomer.leave()
    describe(group, note="the newcomer is gone")
    group.describe(note="the newcomer is gone")
    list_ours(broker)
    classic.heartbeat(note="is alone again")


@conversation
def a_classic_member_joins_a_group_of_consumers(broker: GroupTranscript) -> None:
    topic = broker.topic(partitions=2)
    group = broker.group()
    consumer = Consumer(group, "consumer", topic)
    consumer.join()
    settle(consumer)
    classic = group.member("classic")
    classic.join(protocols={"range": subscription(topic.name)}, note="gets an id")
    classic.join(protocols={"range": subscription(topic.name)}, note="with its id")
    describe(group)
    consumer.leave()
    describe(group, note="the consumer is gone")
    group.describe(note="the consumer is gone")
    list_ours(broker)


@conversation
def members_that_cannot_join_a_group_of_consumers(broker: GroupTranscript) -> None:
    topic = broker.topic(partitions=2)
    group = broker.group()
    consumer = Consumer(group, "consumer", topic)
    consumer.join()
    settle(consumer)
    stranger = group.member("stranger")
    for version in (0, 4, 9):
        stranger.join(version, protocol_type="connect", note="of another kind")
        stranger.join(version, protocols=(), note="without a protocol")
    stranger.heartbeat(member_id="nobody", generation_id=1)
    stranger.sync(member_id="nobody", generation_id=1)
    stranger.heartbeat(member_id=consumer.id, generation_id=consumer.generation, note="as another")
    describe(group)


@conversation
def an_empty_group_takes_any_protocol(broker: GroupTranscript) -> None:
    topic = broker.topic(partitions=2)
    simple = broker.group("simple")
    commit(simple, of(topic, {0: 1}))
    settler = Consumer(simple, "settler", topic)
    settler.join(note="a group of offsets")
    describe(simple)
    fetch(simple)
    settler.leave()
    (classic,) = simple.members("classic")
    simple.describe(note="classic again")
    fetch(simple)
    classic.leave()
    settler.join(note="once more")
    list_ours(broker)


@conversation
def a_consumer_cannot_join_a_group_of_connect_workers(broker: GroupTranscript) -> None:
    topic = broker.topic(partitions=2)
    workers = broker.group("workers")
    gather([workers.member("worker")], protocol_type="connect")
    Consumer(workers, "stranger", topic).join(note="a group of workers")
    workers.describe()
