"""The delta between two images, and records in the version of an older metadata.version."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykbroker.generators import run_to_end
from pykbroker.metadata.difference import difference
from pykbroker.metadata.image import ClusterImage
from pykbroker.metadata.records import decode_record, encode_record, record_version
from pykbroker.metadata.replay import Replay
from pykbroker.metadata.snapshot import SnapshotName, decode_snapshot, encode_snapshot
from pykbroker_protocol.message import ZERO_UUID, Message
from pykbroker_protocol.metadata.cluster import (
    BrokerRegistrationChangeRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
)
from pykbroker_protocol.metadata.topics import (
    ConfigRecord,
    PartitionChangeRecord,
    PartitionRecord,
    TopicRecord,
)
from pykbroker_protocol.records.batch import iterate_batches
from tests.metadata.replaying import apply
from tests.metadata.test_images import contents

REGISTRATION = RegisterBrokerRecord(
    broker_id=1,
    incarnation_id=b"i" * 16,
    broker_epoch=5,
    end_points=(),
    features=(),
    rack=None,
    log_dirs=[b"a" * 16, b"b" * 16],
    cordoned_log_dirs=[b"a" * 16],
)
PARTITION = PartitionRecord(
    partition_id=0,
    topic_id=b"t" * 16,
    replicas=(1, 2),
    isr=(1, 2),
    removing_replicas=(),
    adding_replicas=(),
    leader=1,
    leader_epoch=0,
    partition_epoch=0,
)


@st.composite
def images(draw: st.DrawFn) -> ClusterImage:
    image = ClusterImage(cluster_id="test")
    records: list[Message] = []
    names = draw(st.lists(st.sampled_from(["a", "b.c", "d_e", "f"]), unique=True))
    for name in names:
        topic_id = bytes([draw(st.integers(1, 2))]) + name.encode().ljust(15)
        leader = draw(st.integers(1, 2))
        records += [
            TopicRecord(name=name, topic_id=topic_id),
            PARTITION.replace(topic_id=topic_id, leader=leader),
        ]
    for name in draw(st.lists(st.sampled_from(["a", "f", "g"]), unique=True)):
        value = draw(st.sampled_from(["1", "2"]))
        records.append(ConfigRecord(resource_type=2, resource_name=name, name="k", value=value))
    for broker in draw(st.lists(st.integers(1, 3), unique=True)):
        records.append(REGISTRATION.replace(broker_id=broker, fenced=draw(st.booleans())))
    for level in draw(st.lists(st.integers(1, 3), unique=True)):
        records.append(FeatureLevelRecord(name=f"feature.{level}", feature_level=level))
    if draw(st.booleans()):
        records.append(ProducerIdsRecord(broker_id=1, broker_epoch=5, next_producer_id=1000))
    apply(image, *records)
    return image


@given(before=images(), after=images())
def test_a_difference_turns_one_image_into_the_other(
    before: ClusterImage, after: ClusterImage
) -> None:
    before.apply(run_to_end(difference(before, after)))
    assert contents(before) == contents(after)


def test_equal_values_are_not_in_a_difference() -> None:
    image = ClusterImage(cluster_id="test")
    apply(image, TopicRecord(name="a", topic_id=b"t" * 16), PARTITION, REGISTRATION)
    assert run_to_end(difference(image, image.copy())).is_empty


# --- versions of records


@pytest.mark.parametrize(
    ("level", "versions"),
    [
        (7, (1, 1, 0, 0)),
        (8, (2, 1, 0, 0)),
        (16, (2, 1, 0, 0)),
        (17, (3, 2, 1, 1)),
        (19, (3, 2, 1, 1)),
        (22, (3, 2, 1, 1)),
        (23, (3, 2, 2, 2)),
        (29, (3, 2, 2, 2)),
        (30, (4, 3, 2, 2)),
    ],
)
def test_record_versions_are_those_of_apache_kafka_at_each_metadata_version(
    level: int, versions: tuple[int, ...]
) -> None:
    """As `MetadataVersion` of Apache Kafka 4.3.1 returns them."""
    kinds = (
        RegisterBrokerRecord,
        BrokerRegistrationChangeRecord,
        PartitionRecord,
        PartitionChangeRecord,
    )
    assert tuple(record_version(it, level) for it in kinds) == versions
    assert record_version(FenceBrokerRecord, level) == 0


def test_a_snapshot_has_records_of_the_finalized_metadata_version() -> None:
    image = ClusterImage(cluster_id="test")
    level = FeatureLevelRecord(name="metadata.version", feature_level=19)
    old = REGISTRATION.replace(cordoned_log_dirs=None)
    apply(image, level, old, TopicRecord(name="a", topic_id=b"t" * 16), PARTITION)
    data = encode_snapshot(image, SnapshotName(image.offset + 1, 1), 0)
    versions = {
        record.value[1]: record.value[2]
        for batch in iterate_batches(data)
        if not batch.is_control
        for record in batch.records()
        if record.value is not None
    }
    assert versions == {12: 0, 0: 3, 2: 0, 3: 1}
    loaded = ClusterImage(cluster_id="test")
    replay = Replay(loaded)
    for record in decode_snapshot(data):
        replay.add(record)
    loaded.apply(run_to_end(replay.finish(image.offset)))
    assert contents(loaded) == contents(image)


def test_a_record_survives_encoding_in_an_old_version() -> None:
    record = PARTITION.replace(directories=[b"a" * 16, b"b" * 16])
    assert decode_record(encode_record(record, 19)) == record


# --- directories


def directories_of(image: ClusterImage) -> list[bytes]:
    return list(image.topics["a"].partitions[0].directories)


def cordoned(image: ClusterImage) -> list[bytes]:
    return list(image.brokers[1].cordoned_directories)


def test_partitions_of_old_records_have_an_unknown_directory_for_each_replica() -> None:
    image = ClusterImage(cluster_id="test")
    apply(image, TopicRecord(name="a", topic_id=b"t" * 16), PARTITION)
    assert directories_of(image) == [ZERO_UUID, ZERO_UUID]
    apply(image, PartitionChangeRecord(partition_id=0, topic_id=b"t" * 16, replicas=(1, 2, 3)))
    assert directories_of(image) == [ZERO_UUID] * 3


def test_cordoned_directories_follow_registration_and_changes() -> None:
    image = ClusterImage(cluster_id="test")
    apply(image, REGISTRATION)
    assert cordoned(image) == [b"a" * 16]
    change = BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=5)
    apply(image, change.replace(fenced=-1))
    assert cordoned(image) == [b"a" * 16]
    apply(image, change.replace(cordoned_log_dirs=[]))
    assert cordoned(image) == []
