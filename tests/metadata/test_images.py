"""Images change by whole deltas, share their values, and stay equal when they get equal deltas."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykbroker.metadata.image import (
    BROKER_RESOURCE,
    NO_LEADER,
    TOPIC_RESOURCE,
    ClusterImage,
    PartitionImage,
)
from pykbroker.metadata.replay import InconsistentRecord
from pykbroker_protocol.message import Message
from pykbroker_protocol.metadata.cluster import (
    FeatureLevelRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)
from pykbroker_protocol.metadata.topics import (
    ClearElrRecord,
    ConfigRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from tests.metadata.replaying import apply, delta_of


def contents(image: ClusterImage) -> dict[str, Any]:
    """All values in dicts that do not change with the image."""
    return {name: copied(getattr(image, name)) for name in ClusterImage.__slots__}


def copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: copied(it) for key, it in value.items()}
    return value


def topic_id(number: int) -> bytes:
    return number.to_bytes(16, "big")


def partition(topic: int, index: int = 0, **changes: Any) -> PartitionRecord:
    return PartitionRecord(
        partition_id=index,
        topic_id=topic_id(topic),
        replicas=[1, 2],
        isr=[1, 2],
        removing_replicas=[],
        adding_replicas=[],
        leader=1,
        leader_epoch=0,
        partition_epoch=0,
        directories=[topic_id(91), topic_id(92)],
    ).replace(**changes)


def topic(number: int, name: str = "orders", partitions: int = 1) -> list[Message]:
    records = [partition(number, index) for index in range(partitions)]
    return [TopicRecord(name=name, topic_id=topic_id(number)), *records]


def configuration(value: str | None, name: str = "orders") -> ConfigRecord:
    return ConfigRecord(
        resource_type=TOPIC_RESOURCE, resource_name=name, name="retention.ms", value=value
    )


def registration(broker_id: int) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=broker_id,
        incarnation_id=topic_id(broker_id),
        broker_epoch=5,
        end_points=(),
        features=(),
        rack=None,
    )


@pytest.fixture
def image() -> ClusterImage:
    image = ClusterImage(cluster_id="test")
    apply(image, *topic(1, partitions=3), configuration("5"), registration(1))
    return image


def test_a_delta_does_not_change_the_image_it_is_computed_against(image: ClusterImage) -> None:
    before = contents(image)
    delta_of(
        image,
        RemoveTopicRecord(topic_id=topic_id(1)),
        *topic(2),
        configuration("6"),
        UnfenceBrokerRecord(id=1, epoch=5),
        FeatureLevelRecord(name="group.version", feature_level=1),
        ProducerIdsRecord(broker_id=1, broker_epoch=5, next_producer_id=1000),
    )
    assert contents(image) == before


def test_a_copy_does_not_change_with_its_original_and_shares_its_values(
    image: ClusterImage,
) -> None:
    copy = image.copy()
    before = contents(copy)
    apply(image, PartitionChangeRecord(partition_id=1, topic_id=topic_id(1), leader=2))
    apply(image, configuration("6"))
    apply(image, *topic(2, "payments"))
    assert contents(copy) == before
    changed, unchanged = (it.topics["orders"].partitions for it in (image, copy))
    assert changed[1].leader != unchanged[1].leader
    assert changed[0] is unchanged[0]


def test_two_images_of_a_process_share_the_values_of_a_delta(image: ClusterImage) -> None:
    committed = image.copy()
    committed.apply(apply(image, *topic(2, "payments")))
    assert committed.topics["payments"] is image.topics["payments"]
    assert contents(committed) == contents(image)


def test_a_delta_applies_once_and_in_order(image: ClusterImage) -> None:
    first = delta_of(image, *topic(2, "payments"))
    image.apply(first)
    with pytest.raises(AssertionError):
        image.apply(first)
    behind = ClusterImage(cluster_id="test")
    with pytest.raises(AssertionError):
        behind.apply(first)


def test_a_topic_created_and_deleted_in_one_batch_is_not_in_the_image(image: ClusterImage) -> None:
    before = contents(image)
    delta = apply(
        image,
        *topic(2, "or.ders"),
        configuration("9", "or.ders"),
        RemoveTopicRecord(topic_id=topic_id(2)),
    )
    assert not delta.topics
    assert not delta.topics_deleted
    assert contents(image) == before | {"offset": image.offset}


def test_a_topic_deleted_and_created_in_one_batch_has_only_the_new_configuration(
    image: ClusterImage,
) -> None:
    delta = apply(
        image,
        RemoveTopicRecord(topic_id=topic_id(1)),
        *topic(2),
        ConfigRecord(
            resource_type=TOPIC_RESOURCE, resource_name="orders", name="segment.ms", value="7"
        ),
    )
    assert [it.id for it in delta.topics_deleted] == [topic_id(1)]
    assert [it.id for it in delta.topics.values()] == [topic_id(2)]
    assert image.topics["orders"].id == topic_id(2)
    assert list(image.topics_by_id) == [topic_id(2)]
    assert image.configurations[TOPIC_RESOURCE, "orders"] == {"segment.ms": "7"}


def test_partition_records_are_applied_in_any_order() -> None:
    image = ClusterImage(cluster_id="test")
    apply(image, TopicRecord(name="orders", topic_id=topic_id(1)), partition(1, 2))
    assert [it.leader for it in image.topics["orders"].partitions] == [NO_LEADER, NO_LEADER, 1]
    apply(image, partition(1, 0), partition(1, 1))
    assert [(it.index, it.leader) for it in image.topics["orders"].partitions] == [
        (0, 1),
        (1, 1),
        (2, 1),
    ]


def test_equal_replica_lists_of_a_batch_are_stored_once() -> None:
    image = ClusterImage(cluster_id="test")
    apply(image, *topic(1, partitions=2))
    first, second = image.topics["orders"].partitions
    assert first.replicas is second.replicas is first.in_sync
    assert first.directories is second.directories


def test_clearing_eligible_replicas_of_all_topics_includes_created_ones(
    image: ClusterImage,
) -> None:
    eligible: dict[str, Any] = {"eligible_leader_replicas": [3], "last_known_elr": [4]}
    change = PartitionChangeRecord(partition_id=0, topic_id=topic_id(1), **eligible)
    apply(image, change)
    created = [
        TopicRecord(name="payments", topic_id=topic_id(2)),
        partition(2, **eligible),
        ClearElrRecord(topic_name=""),
    ]
    apply(image, *created)
    for name in ("orders", "payments"):
        found: PartitionImage = image.topics[name].partitions[0]
        assert (found.eligible, found.last_known) == ((), ())


def test_an_unregistered_broker_is_removed_and_can_register_again(image: ClusterImage) -> None:
    gone = UnregisterBrokerRecord(broker_id=1, broker_epoch=5)
    apply(image, gone, registration(2))
    assert list(image.brokers) == [2]
    apply(image, registration(1), UnfenceBrokerRecord(id=1, epoch=5))
    assert not image.brokers[1].fenced


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (TopicRecord(name="orders", topic_id=topic_id(9)), "topic orders exists already"),
        (partition(9), "does not exist"),
        (partition(1, -1), "partition -1 is out of range"),
        (partition(1, 2**31 - 1), "is out of range"),
        (PartitionChangeRecord(partition_id=3, topic_id=topic_id(1)), "partition 3' does not"),
        (PartitionChangeRecord(partition_id=-1, topic_id=topic_id(1)), "partition -1' does not"),
        (RemoveTopicRecord(topic_id=topic_id(9)), "does not exist"),
        (ClearElrRecord(topic_name="unknown"), "'unknown' does not exist"),
        (UnfenceBrokerRecord(id=9, epoch=5), "9 does not exist"),
        (UnregisterBrokerRecord(broker_id=9, broker_epoch=5), "9 does not exist"),
    ],
)
def test_a_record_that_does_not_fit_the_image_is_refused(
    image: ClusterImage, record: Message, reason: str
) -> None:
    before = contents(image)
    with pytest.raises(InconsistentRecord, match=reason):
        apply(image, record)
    assert contents(image) == before


def test_a_topic_deleted_in_the_batch_cannot_be_changed_or_deleted(image: ClusterImage) -> None:
    remove = RemoveTopicRecord(topic_id=topic_id(1))
    for record in (remove, partition(1)):
        with pytest.raises(InconsistentRecord, match="does not exist"):
            apply(image, remove, record)


def test_the_partition_count_of_an_unknown_topic_is_0(image: ClusterImage) -> None:
    assert image.partition_count("orders") == 3
    assert image.partition_count("unknown") == 0


# --- batches of any size have the effect of their records one after the other

names = st.sampled_from(["a", "b.c", "d_e"])
operations = st.lists(
    st.one_of(
        st.tuples(st.just("topic"), names, st.integers(1, 3)),
        st.tuples(st.just("remove"), names, st.none()),
        st.tuples(st.just("lead"), names, st.integers(-1, 2)),
        st.tuples(st.just("configure"), names, st.sampled_from(["5", None])),
        st.tuples(st.just("broker"), names, st.integers(1, 2)),
        st.tuples(st.just("unregister"), names, st.integers(1, 2)),
        st.tuples(st.just("feature"), names, st.integers(0, 2)),
    ),
    max_size=25,
)


def records_of(steps: list[tuple[str, str, Any]]) -> list[list[Message]]:
    """Records of valid commands, one list for each; invalid commands are left out."""
    image, commands = ClusterImage(cluster_id="test"), []
    for number, (kind, name, argument) in enumerate(steps):
        known = image.topics.get(name)
        records: list[Message] = []
        match kind:
            case "topic" if known is None:
                records = topic(number + 1, name, argument)
            case "remove" if known is not None:
                records = [RemoveTopicRecord(topic_id=known.id)]
            case "lead" if known is not None:
                records = [
                    PartitionChangeRecord(partition_id=0, topic_id=known.id, leader=argument)
                ]
            case "configure" if known is not None:
                records = [configuration(argument, name)]
            case "broker":
                records = [registration(argument)]
            case "unregister" if argument in image.brokers:
                records = [UnregisterBrokerRecord(broker_id=argument, broker_epoch=5)]
            case "feature":
                records = [FeatureLevelRecord(name=name, feature_level=argument)]
        apply(image, *records)
        commands.append(records)
    return commands


@given(operations, st.integers(1, 25))
def test_an_image_does_not_depend_on_the_size_of_batches(
    steps: list[tuple[str, str, Any]], commands_per_batch: int
) -> None:
    commands = records_of(steps)
    singly, batched = ClusterImage(cluster_id="test"), ClusterImage(cluster_id="test")
    for command in commands:
        for record in command:
            apply(singly, record)
    for first in range(0, len(commands), commands_per_batch):
        batch = commands[first : first + commands_per_batch]
        apply(batched, *(record for command in batch for record in command))
    assert contents(batched) == contents(singly)
    assert (BROKER_RESOURCE, "") not in batched.configurations
