"""Commits, fetches and deletions of offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pykbroker_protocol.message import ZERO_UUID
from pykbroker_protocol.messages.delete_topics import DeleteTopicsRequest
from pykbroker_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pykbroker_protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from pykbroker_protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from tests.apis.groups.transcript import conversation, gather, subscription

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.apis.groups.transcript import Group, GroupTranscript, Member
    from tests.apis.transcript import Topic

    Offsets = Mapping[int, int]

COMMIT_VERSIONS = range(2, 11)
FETCH_VERSIONS = range(1, 11)
GROUPS_SINCE = 8
SOME_ID = bytes(range(16))


def of(topic: Topic, offsets: Offsets, **more: Any) -> OffsetCommitRequestTopic:
    return OffsetCommitRequestTopic(
        name=topic.name,
        topic_id=topic.id,
        partitions=[
            OffsetCommitRequestPartition(
                **{
                    "partition_index": partition,
                    "committed_offset": offset,
                    "committed_metadata": "words",
                    **more,
                }
            )
            for partition, offset in offsets.items()
        ],
    )


def commit(
    group: Group,
    *topics: OffsetCommitRequestTopic,
    member: Member | None = None,
    version: int = 9,
    note: str = "",
    **more: Any,
) -> None:
    request = OffsetCommitRequest(
        **{
            "group_id": group.id,
            "generation_id_or_member_epoch": member.generation if member else -1,
            "member_id": member.id if member else "",
            "group_instance_id": member.instance if member and version >= 7 else None,
            "topics": topics,
            **more,
        }
    )
    group.broker.ask(request, version, note=note)


def fetch(
    group: Group,
    topics: Mapping[Topic, Sequence[int]] | None = None,
    *,
    version: int = 9,
    note: str = "",
    **more: Any,
) -> None:
    if version < GROUPS_SINCE:
        request = None
        if topics is not None:
            request = [
                OffsetFetchRequestTopic(name=topic.name, partition_indexes=indexes)
                for topic, indexes in topics.items()
            ]
        group.broker.ask(OffsetFetchRequest(group_id=group.id, topics=request), version, note=note)
        return
    of_group = OffsetFetchRequestGroup(
        **{"group_id": group.id, "topics": places(topics), **more},
    )
    group.broker.ask(OffsetFetchRequest(groups=[of_group]), version, note=note)


def places(
    topics: Mapping[Topic, Sequence[int]] | None,
) -> list[OffsetFetchRequestTopics] | None:
    if topics is None:
        return None
    return [
        OffsetFetchRequestTopics(name=topic.name, topic_id=topic.id, partition_indexes=indexes)
        for topic, indexes in topics.items()
    ]


def forget(group: Group, topics: Mapping[str, Sequence[int]], *, note: str = "") -> None:
    request = OffsetDeleteRequest(
        group_id=group.id,
        topics=[
            OffsetDeleteRequestTopic(
                name=name,
                partitions=[OffsetDeleteRequestPartition(partition_index=it) for it in indexes],
            )
            for name, indexes in topics.items()
        ],
    )
    group.broker.ask(request, 0, note=note)


class Unknown:
    """A topic that does not exist."""

    def __init__(self, name: str = "no-such-topic") -> None:
        self.name = name
        self.id = SOME_ID


@conversation
def consumers_without_a_group_commit_in_each_version(broker: GroupTranscript) -> None:
    topic = broker.topic(partitions=3)
    for version in COMMIT_VERSIONS:
        group = broker.group(f"v{version}")
        commit(group, of(topic, {0: 5, 2: 7}), version=version)
        group.describe()
        for fetch_version in FETCH_VERSIONS:
            fetch(group, {topic: [0, 1, 2]}, version=fetch_version)
            if fetch_version >= 2:
                fetch(group, version=fetch_version, note="all")


@conversation
def members_commit_in_each_version(broker: GroupTranscript) -> None:
    topic = broker.topic()
    for version in COMMIT_VERSIONS:
        group = broker.group(f"v{version}")
        (member,) = group.members("member")
        commit(group, of(topic, {0: version}), member=member, version=version)
        fetch(group)
        member.generation += 1
        commit(group, of(topic, {0: 99}), member=member, version=version, note="too new")
        member.generation -= 2
        commit(group, of(topic, {0: 99}), member=member, version=version, note="too old")
        member.generation = -1
        commit(group, of(topic, {0: 99}), member=member, version=version, note="no generation")
        member.generation, member.id = 1, "nobody"
        commit(group, of(topic, {0: 99}), member=member, version=version, note="a stranger")
        commit(group, of(topic, {0: 99}), version=version, note="a simple consumer")
        fetch(group)


@conversation
def commits_while_the_group_rebalances(broker: GroupTranscript) -> None:
    topic = broker.topic()
    group = broker.group()
    leader, second = group.members("leader", "second")
    leader.begin_join(protocols={"range": subscription("changed")})
    group.until("PreparingRebalance")
    commit(group, of(topic, {0: 1}), member=second, note="preparing")
    second.join()
    leader.hear()
    commit(group, of(topic, {0: 2}), member=second, note="completing")
    second.generation -= 1
    commit(group, of(topic, {0: 3}), member=second, note="completing, the generation before")
    fetch(group)


@conversation
def commits_to_empty_and_unknown_groups(broker: GroupTranscript) -> None:
    topic = broker.topic()
    group = broker.group()
    (member,) = group.members("member")
    member.leave()
    commit(group, of(topic, {0: 1}), member=member, note="a member that has left")
    commit(group, of(topic, {0: 2}), note="a simple consumer")
    commit(group, of(topic, {0: 3}), note="generation 0", generation_id_or_member_epoch=0)
    commit(group, of(topic, {0: 4}), note="with a member id", member_id="somebody")
    fetch(group)
    other = broker.group("unknown")
    commit(other, of(topic, {0: 1}), note="unknown, generation 5", generation_id_or_member_epoch=5)
    commit(other, of(topic, {0: 1}), note="unknown, with a member id", member_id="somebody")
    commit(other, of(topic, {0: 1}), note="unknown, an instance", group_instance_id="one")
    fetch(other)
    other.describe()


@conversation
def static_members_commit(broker: GroupTranscript) -> None:
    topic = broker.topic()
    group = broker.group()
    member = group.member("one", instance="one")
    gather([member])
    commit(group, of(topic, {0: 1}), member=member)
    back = group.member("one", instance="one")
    back.join()
    commit(group, of(topic, {0: 2}), member=member, note="is fenced")
    commit(group, of(topic, {0: 3}), member=back)
    commit(group, of(topic, {0: 4}), member=back, group_instance_id="two", note="another instance")
    commit(group, of(topic, {0: 5}), member=back, group_instance_id=None, note="no instance")
    fetch(group)


@conversation
def commits_with_an_empty_group_id(broker: GroupTranscript) -> None:
    topic = broker.topic()
    for version in COMMIT_VERSIONS:
        group = broker.group("")
        group.id = ""
        commit(group, of(topic, {0: 1}), version=version)
        commit(group, of(topic, {0: 1}), version=version, generation_id_or_member_epoch=1)
    for version in FETCH_VERSIONS:
        fetch(group, {topic: [0]}, version=version)
    forget(group, {topic.name: [0]})


@conversation
def commits_to_unknown_partitions(broker: GroupTranscript) -> None:
    topic = broker.topic(partitions=2)
    unknown: Any = Unknown()
    unnamed: Any = Unknown("")
    for version in (2, 8, 9, 10):
        group = broker.group(f"v{version}")
        mixed = [of(topic, {1: 1, 2: 1, -1: 1}), of(unknown, {0: 1})]
        commit(group, *mixed, version=version, note="some exist")
        commit(group, of(unknown, {0: 1}), version=version, note="none exists")
        commit(group, version=version, note="nothing at all")
        fetch(group, version=version, note="all")
        fetch(group, {topic: [1, 2, -1], unknown: [0]}, version=version)
        fetch(group, {unnamed: [0]}, version=version, note="no name")
        fetch(group, {}, version=version, note="nothing at all")
    nameless = of(topic, {0: 1}).replace(topic_id=ZERO_UUID)
    commit(group, nameless, version=10, note="no id")


@conversation
def commits_with_extreme_offsets_and_metadata(broker: GroupTranscript) -> None:
    topic = broker.topic()
    group = broker.group()
    for offset in (0, -1, -2, 2**63 - 1):
        commit(group, of(topic, {0: offset}), note=f"offset {offset}")
        fetch(group)
    for words in (None, "", "x" * 4096, "x" * 4097, "ä" * 4096, "\N{CUCUMBER}" * 2049):
        described = "none" if words is None else f"{len(words)} of {words[:1]}"
        commit(group, of(topic, {0: 1}, committed_metadata=words), note=described)
        fetch(group, note=described)
    for epoch in (-1, 0, 7):
        commit(group, of(topic, {0: 1}, committed_leader_epoch=epoch), note=f"epoch {epoch}")
        fetch(group)
        fetch(group, version=5)


@conversation
def one_of_two_partitions_has_too_long_metadata(broker: GroupTranscript) -> None:
    topic = broker.topic(partitions=2)
    group = broker.group()
    good, bad = of(topic, {0: 1}), of(topic, {1: 1}, committed_metadata="x" * 5000)
    both = good.replace(partitions=[*good.partitions, *bad.partitions])
    for version in (2, 9):
        commit(group, both, version=version)
    fetch(group, {topic: [0, 1]})


@conversation
def offsets_of_several_groups_are_fetched(broker: GroupTranscript) -> None:
    topic, other = broker.topic("one", partitions=2), broker.topic("two")
    first, second, nobody = (broker.group(it) for it in ("first", "second", "nobody"))
    commit(first, of(topic, {0: 1, 1: 2}), of(other, {0: 3}))
    commit(second, of(other, {0: 4}))
    for version in (8, 9, 10):
        request = [
            OffsetFetchRequestGroup(group_id=first.id, topics=places({topic: [0], other: [0]})),
            OffsetFetchRequestGroup(group_id=second.id, topics=None),
            OffsetFetchRequestGroup(group_id=nobody.id, topics=None),
            OffsetFetchRequestGroup(group_id=nobody.id, topics=places({topic: [0]})),
            OffsetFetchRequestGroup(group_id="", topics=None),
        ]
        broker.ask(OffsetFetchRequest(groups=request), version)
        broker.ask(OffsetFetchRequest(groups=request, require_stable=True), version, note="stable")
        broker.ask(OffsetFetchRequest(groups=()), version, note="no group")


@conversation
def fetches_of_classic_members_with_epochs(broker: GroupTranscript) -> None:
    topic = broker.topic()
    group = broker.group()
    (member,) = group.members("member")
    commit(group, of(topic, {0: 1}), member=member)
    for member_id, epoch in ((member.id, member.generation), (member.id, 7), ("nobody", 1)):
        for version in (9, 10):
            fetch(group, version=version, member_id=member_id, member_epoch=epoch)


@conversation
def offsets_are_deleted(broker: GroupTranscript) -> None:
    read, unread = broker.topic("read", partitions=2), broker.topic("unread", partitions=2)
    group = broker.group()
    member = group.member("member")
    gather([member], protocols={"range": subscription(read.name)})
    commit(group, of(read, {0: 1, 1: 2}), of(unread, {0: 3}), member=member)
    forget(group, {read.name: [0], unread.name: [0, 1]}, note="one topic is subscribed")
    fetch(group)
    forget(group, {"no-such-topic": [0], unread.name: [5, -1]}, note="not there")
    forget(group, {}, note="nothing")
    member.leave()
    forget(group, {read.name: [0]}, note="an empty group")
    fetch(group)
    forget(group, {read.name: [1]}, note="the last one")
    forget(group, {read.name: [1]}, note="again")
    group.describe()
    forget(broker.group("nobody"), {read.name: [0]}, note="no group")


@conversation
def offsets_of_subscribed_topics_are_not_deleted(broker: GroupTranscript) -> None:
    topic = broker.topic()
    group = broker.group()
    worker = group.member("worker")
    gather([worker], protocol_type="connect")
    commit(group, of(topic, {0: 1}), member=worker)
    forget(group, {topic.name: [0]}, note="in use")
    worker.leave()
    forget(group, {topic.name: [0]}, note="not in use")


@conversation
def deleting_a_topic_deletes_its_offsets(broker: GroupTranscript) -> None:
    kept, gone = broker.topic("kept"), broker.topic("gone")
    group = broker.group()
    commit(group, of(kept, {0: 1}), of(gone, {0: 2}))
    broker.quietly(DeleteTopicsRequest(topic_names=[gone.name], timeout_ms=10_000), 5)
    broker.until_gone(gone.name)
    broker.until_forgotten(group.id, gone.name)
    for version in (8, 9, 10):
        fetch(group, version=version, note="all")
    fetch(group, {kept: [0], gone: [0]})
