"""Transactional offset commits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pykbroker_protocol.messages.delete_groups import DeleteGroupsRequest
from pykbroker_protocol.messages.delete_topics import DeleteTopicsRequest
from tests.apis.groups.administering import list_ours
from tests.apis.groups.consuming import Consumer, settle
from tests.apis.groups.offsets import Unknown, commit, fetch, forget, of
from tests.apis.groups.transacting import (
    IMPLICIT_SINCE,
    MEMBERS_SINCE,
    VERSIONS,
    Producer,
    fetch_both,
    within,
)
from tests.apis.groups.transcript import conversation, gather, subscription

if TYPE_CHECKING:
    from tests.apis.groups.transcript import GroupTranscript


@conversation
def offsets_are_visible_after_the_transaction_commits(broker: GroupTranscript) -> None:
    topic = broker.topic(partitions=2)
    for version in VERSIONS:
        group, producer = broker.group(f"v{version}"), Producer(broker, f"v{version}")
        for committed in (False, True):
            producer.add(group)
            producer.commit(group, within(topic, {0: version}), version=version)
            group.describe()
            fetch_both(group, {topic: [0, 1]}, note="pending")
            fetch_both(group, note="pending, all")
            producer.end(group, committed=committed)
            fetch_both(group, {topic: [0, 1]}, note="ended")
            fetch_both(group, note="ended, all")
        producer.commit(group, within(topic, {0: 7, 1: 8}), version=version, note="two")
        fetch_both(group, note="the second is new")
        for old_version in range(1, 8):
            fetch(group, {topic: [0, 1]}, version=old_version)
        producer.end(group, committed=False)
        fetch_both(group)
    list_ours(broker)


@conversation
def offsets_of_a_group_that_was_not_added(broker: GroupTranscript) -> None:
    topic = broker.topic()
    for version in VERSIONS:
        group, producer = broker.group(f"v{version}"), Producer(broker, f"v{version}")
        producer.commit(group, within(topic, {0: 1}), version=version)
        fetch_both(group)
        if version >= IMPLICIT_SINCE:
            producer.end(group, version=version)
        fetch_both(group)


@conversation
def members_commit_within_a_transaction(broker: GroupTranscript) -> None:
    topic = broker.topic()
    for version in VERSIONS:
        group, producer = broker.group(f"v{version}"), Producer(broker, f"v{version}")
        (member,) = group.members("member")
        producer.add(group)
        producer.commit(group, within(topic, {0: 1}), version=version, note="nobody in particular")
        if version < MEMBERS_SINCE:
            continue
        producer.commit(group, within(topic, {0: 2}), member=member, version=version)
        producer.commit(
            group, within(topic, {0: 3}), version=version, member_id=member.id, note="no generation"
        )
        producer.commit(
            group, within(topic, {0: 3}), version=version, generation_id=1, note="no member"
        )
        producer.commit(
            group, within(topic, {0: 3}), version=version, group_instance_id="one", note="instance"
        )
        producer.commit(
            group, within(topic, {0: 3}), member=member, version=version, generation_id=0
        )
        producer.commit(
            group, within(topic, {0: 3}), member=member, version=version, generation_id=2
        )
        producer.commit(
            group, within(topic, {0: 3}), member=member, version=version, member_id="nobody"
        )
        fetch_both(group)
        producer.end(group)
        fetch_both(group)


@conversation
def static_members_commit_within_a_transaction(broker: GroupTranscript) -> None:
    topic, group, producer = broker.topic(), broker.group(), Producer(broker)
    member = group.member("one", instance="one")
    gather([member])
    back = group.member("one", instance="one")
    back.join()
    producer.add(group)
    producer.commit(group, within(topic, {0: 1}), member=member, note="is fenced")
    producer.commit(group, within(topic, {0: 2}), member=back)
    producer.commit(
        group, within(topic, {0: 3}), member=back, group_instance_id="two", note="another instance"
    )
    producer.commit(
        group, within(topic, {0: 4}), member=back, group_instance_id=None, note="no instance"
    )
    producer.end(group)
    fetch_both(group)


@conversation
def transactions_while_the_group_rebalances(broker: GroupTranscript) -> None:
    topic, group, producer = broker.topic(), broker.group(), Producer(broker)
    leader, second = group.members("leader", "second")
    producer.add(group)
    leader.begin_join(protocols={"range": subscription("changed")})
    group.until("PreparingRebalance")
    producer.commit(group, within(topic, {0: 1}), member=second, note="preparing")
    second.join()
    leader.hear()
    producer.commit(group, within(topic, {0: 2}), member=second, note="completing")
    second.generation -= 1
    producer.commit(group, within(topic, {0: 3}), member=second, note="the generation before")
    producer.end(group)
    fetch_both(group)


@conversation
def transactions_of_empty_and_unknown_groups(broker: GroupTranscript) -> None:
    topic, group, producer = broker.topic(), broker.group(), Producer(broker)
    (member,) = group.members("member")
    member.leave()
    producer.add(group)
    producer.commit(group, within(topic, {0: 1}), member=member, note="a member that has left")
    producer.commit(group, within(topic, {0: 2}), note="nobody")
    producer.commit(group, within(topic, {0: 3}), note="generation 0", generation_id=0)
    producer.commit(group, within(topic, {0: 4}), note="with a member id", member_id="somebody")
    fetch_both(group)
    other = broker.group("unknown")
    producer.add(other)
    producer.commit(other, within(topic, {0: 1}), note="generation 5", generation_id=5)
    producer.commit(other, within(topic, {0: 1}), note="a member id", member_id="somebody")
    producer.commit(other, within(topic, {0: 1}), note="an instance", group_instance_id="one")
    other.describe()
    producer.end(group, committed=False)
    other.describe(note="nothing came of it")
    fetch_both(other)
    list_ours(broker)


@conversation
def transactions_with_empty_and_wrong_ids(broker: GroupTranscript) -> None:
    topic, producer = broker.topic(), Producer(broker)
    nameless = broker.group("")
    nameless.id = ""
    group = broker.group()
    for version in VERSIONS:
        producer.commit(nameless, within(topic, {0: 1}), version=version, note="no group")
        for name in ("", "no such id"):
            producer.commit(
                group, within(topic, {0: 1}), version=version, transactional_id=name, note=name
            )
        producer.commit(
            group, within(topic, {0: 1}), version=version, producer_id=9_999_999, note="no such"
        )
        producer.commit(group, within(topic, {0: 1}), version=version, producer_id=-1, note="none")
        producer.commit(
            group, within(topic, {0: 1}), version=version, producer_epoch=5, note="epoch to come"
        )
        producer.commit(
            group, within(topic, {0: 1}), version=version, producer_epoch=-1, note="no epoch"
        )


@conversation
def transactions_with_unknown_partitions(broker: GroupTranscript) -> None:
    topic, producer = broker.topic(partitions=2), Producer(broker)
    unknown: Any = Unknown()
    for version in VERSIONS:
        group = broker.group(f"v{version}")
        producer.add(group)
        mixed = within(topic, {1: 1, 2: 1, -1: 1}), within(unknown, {0: 1})
        producer.commit(group, *mixed, version=version, note="some exist")
        producer.commit(group, within(unknown, {0: 1}), version=version, note="none exists")
        producer.commit(group, version=version, note="nothing at all")
        fetch_both(group)
        producer.end(group)
        fetch_both(group)


@conversation
def metadata_of_any_length_within_a_transaction(broker: GroupTranscript) -> None:
    topic, group, producer = broker.topic(partitions=2), broker.group(), Producer(broker)
    producer.add(group)
    for words in (None, "", "x" * 4096, "x" * 4097):
        producer.commit(group, within(topic, {0: 1}, committed_metadata=words), note=str(words)[:1])
    good, bad = within(topic, {0: 1}), within(topic, {1: 1}, committed_metadata="x" * 5000)
    producer.commit(group, good.replace(partitions=[*good.partitions, *bad.partitions]))
    for offset in (-1, -2, 2**63 - 1):
        producer.commit(group, within(topic, {0: offset}), note=f"offset {offset}")
    producer.commit(group, within(topic, {0: 5}, committed_leader_epoch=7), note="epoch 7")
    producer.end(group)
    fetch_both(group)


@conversation
def fenced_producers_commit_no_offsets(broker: GroupTranscript) -> None:
    topic = broker.topic()
    for version in VERSIONS:
        group = broker.group(f"v{version}")
        zombie = Producer(broker, f"v{version}")
        zombie.add(group)
        zombie.commit(group, within(topic, {0: 1}), version=version)
        owner = Producer(broker, f"v{version}")
        fetch_both(group, {topic: [0]}, note="the transaction was aborted")
        zombie.commit(group, within(topic, {0: 2}), version=version, note="zombie")
        owner.add(group)
        zombie.commit(group, within(topic, {0: 3}), version=version, note="zombie of an owner")
        owner.commit(group, within(topic, {0: 4}), version=version)
        zombie.commit(group, within(topic, {0: 5}), version=version, note="zombie after owner")
        owner.end(group)
        fetch_both(group, {topic: [0]})


@conversation
def the_later_of_two_commits_takes_effect(broker: GroupTranscript) -> None:
    topic, group = broker.topic(partitions=3), broker.group()
    first, second = Producer(broker, "first"), Producer(broker, "second")
    for producer in (first, second):
        producer.add(group)
    commit(group, of(topic, {0: 1, 1: 1, 2: 1}), note="before all")
    first.commit(group, within(topic, {0: 2, 1: 2}))
    commit(group, of(topic, {0: 3}), note="after the first")
    second.commit(group, within(topic, {1: 4, 2: 4}))
    fetch_both(group)
    second.end(group)
    fetch_both(group, note="the second has committed")
    first.end(group)
    fetch_both(group, note="both have committed")


@conversation
def pending_offsets_are_deleted(broker: GroupTranscript) -> None:
    topic, producer = broker.topic(partitions=2), Producer(broker)
    for committed in (True, False):
        group = broker.group(f"group-{committed}")
        producer.add(group)
        commit(group, of(topic, {1: 5}))
        producer.commit(group, within(topic, {0: 1, 1: 1}))
        fetch_both(group, {topic: [0, 1]})
        forget(group, {topic.name: [0, 1]})
        fetch_both(group, {topic: [0, 1]}, note="forgotten")
        forget(group, {topic.name: [0, 1]}, note="again")
        producer.commit(group, within(topic, {0: 9}), note="once more")
        fetch_both(group, {topic: [0, 1]})
        producer.end(group, committed=committed)
        fetch_both(group, {topic: [0, 1]})


@conversation
def groups_with_pending_offsets_are_deleted(broker: GroupTranscript) -> None:
    topic, producer = broker.topic(partitions=2), Producer(broker)
    for committed in (True, False):
        group = broker.group(f"group-{committed}")
        producer.add(group)
        commit(group, of(topic, {1: 5}))
        producer.commit(group, within(topic, {0: 1, 1: 1}))
        broker.ask(DeleteGroupsRequest(groups_names=[group.id]), 2)
        fetch_both(group, {topic: [0, 1]}, note="deleted")
        group.describe()
        producer.commit(group, within(topic, {0: 9}), note="once more")
        group.describe()
        producer.end(group, committed=committed)
        fetch_both(group, {topic: [0, 1]})
        group.describe()
        list_ours(broker)


@conversation
def transactions_of_version_2_add_the_group_themselves(broker: GroupTranscript) -> None:
    topic, group, producer = broker.topic(), broker.group(), Producer(broker)
    for committed in (True, False, True):
        producer.commit(group, within(topic, {0: producer.epoch}), version=5)
        producer.commit(group, within(topic, {0: producer.epoch + 10}), version=5, note="again")
        fetch_both(group)
        former = producer.epoch
        producer.end(group, committed=committed, version=5)
        broker.note("the epoch after", producer.epoch - former)
        fetch_both(group)
        producer.commit(
            group, within(topic, {0: 99}), version=5, producer_epoch=former, note="epoch before"
        )
        producer.end(group, committed=False, version=5)


@conversation
def deleting_a_topic_deletes_pending_offsets(broker: GroupTranscript) -> None:
    gone, kept = broker.topic("gone"), broker.topic("kept")
    group, producer = broker.group(), Producer(broker)
    producer.add(group)
    producer.commit(group, within(gone, {0: 1}), within(kept, {0: 2}))
    commit(group, of(gone, {0: 3}), of(kept, {0: 4}))
    producer.commit(group, within(gone, {0: 5}))
    broker.quietly(DeleteTopicsRequest(topic_names=[gone.name], timeout_ms=10_000), 5)
    broker.until_gone(gone.name)
    broker.until_forgotten(group.id, gone.name)
    fetch_both(group, {gone: [0], kept: [0]})
    producer.end(group)
    fetch_both(group, {gone: [0], kept: [0]})
    fetch_both(group)


@conversation
def consumers_with_epochs_commit_within_a_transaction(broker: GroupTranscript) -> None:
    topic = broker.topic()
    for version in VERSIONS:
        group, producer = broker.group(f"v{version}"), Producer(broker, f"v{version}")
        consumer: Any = Consumer(group, "consumer", topic)
        consumer.join()
        settle(consumer)
        producer.add(group)
        producer.commit(group, within(topic, {0: 1}), version=version, note="nobody in particular")
        if version < MEMBERS_SINCE:
            producer.end(group)
            fetch_both(group)
            continue
        producer.commit(group, within(topic, {0: 2}), member=consumer, version=version)
        for epoch in (-1, 0, consumer.generation - 1, consumer.generation + 1):
            producer.commit(
                group,
                within(topic, {0: 3}),
                member=consumer,
                version=version,
                generation_id=epoch,
                note=f"epoch {epoch - consumer.generation} from its own",
            )
        for member_id in ("", "nobody"):
            producer.commit(
                group,
                within(topic, {0: 3}),
                member=consumer,
                version=version,
                member_id=member_id,
                note=f"member {member_id}",
            )
        producer.commit(
            group, within(topic, {0: 3}), member=consumer, version=version, group_instance_id="one"
        )
        fetch_both(group)
        producer.end(group)
        fetch_both(group)
        consumer.leave()
        producer.commit(group, within(topic, {0: 4}), member=consumer, version=version, note="left")
        producer.commit(group, within(topic, {0: 5}), version=version, note="nobody is left")
        producer.end(group)
        fetch_both(group)
