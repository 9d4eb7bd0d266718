"""Records and batches of the metadata log, and the effect of records on an image."""

import pytest

from pykbroker.metadata.batches import (
    UnfinishedTransaction,
    committed_records,
    record_batch,
    records_of,
)
from pykbroker.metadata.features import refuse_features
from pykbroker.metadata.image import ClusterImage, PartitionImage
from pykbroker.metadata.records import (
    RECORD_TYPES,
    MalformedRecord,
    decode_record,
    encode_record,
)
from pykbroker.metadata.replay import UnsupportedRecord
from pykbroker_protocol.message import Message
from pykbroker_protocol.metadata.cluster import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    RegisterBrokerRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)
from pykbroker_protocol.metadata.security import ClientQuotaRecord
from pykbroker_protocol.metadata.topics import (
    ClearElrRecord,
    PartitionChangeRecord,
    PartitionRecord,
    TopicRecord,
)
from pykbroker_protocol.records.batch import RecordBatch
from tests.metadata.replaying import TOPIC_ID, apply, image_with_eligible

BEGIN, END, ABORT = BeginTransactionRecord(), EndTransactionRecord(), AbortTransactionRecord()


def feature(level: int) -> FeatureLevelRecord:
    return FeatureLevelRecord(name="metadata.version", feature_level=level)


def test_the_frame_contains_type_and_version() -> None:
    value = encode_record(TopicRecord(name="a", topic_id=TOPIC_ID))
    assert value == bytes([1, 2, 0]) + b"\x02a" + TOPIC_ID + b"\x00"
    assert decode_record(value) == TopicRecord(name="a", topic_id=TOPIC_ID)


def test_every_record_type_of_kafka_is_declared() -> None:
    assert sorted(RECORD_TYPES) == [*range(6), 7, 8, 9, 10, 11, 12, 14, 15, *range(17, 29)]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (b"", "a value of 0 bytes has no type and version"),
        (b"\x01\x02", "a value of 2 bytes has no type and version"),
        (b"\x02\x02\x00", "frame version 2"),
        (b"\x01\x06\x00", "record type 6 is not supported"),
        (b"\x01\x02\x09", "TopicRecord version 9 is not supported"),
    ],
)
def test_an_unsupported_record_is_named(value: bytes, message: str) -> None:
    with pytest.raises(MalformedRecord, match=message):
        decode_record(value)


def test_a_batch_decodes_to_its_records() -> None:
    records = [feature(level) for level in range(1, 200)]
    batch = RecordBatch.parse(record_batch(records, timestamp_ms=7, base_offset=5, epoch=3))
    assert list(records_of(batch)) == records
    assert (batch.base_offset, batch.partition_leader_epoch) == (5, 3)
    assert batch.is_crc_valid()


@pytest.mark.parametrize(
    ("records", "count"),
    [
        ([feature(1), feature(2)], [1, 2]),
        ([BEGIN, feature(1), END, feature(2)], [1, 2]),
        ([feature(1), BEGIN, feature(2), ABORT, feature(3)], [1, 3]),
    ],
)
def test_records_of_a_metadata_transaction_count_when_it_ends(
    records: list[Message], count: list[int]
) -> None:
    assert list(committed_records(records)) == [feature(level) for level in count]


def test_a_metadata_transaction_without_end_is_refused() -> None:
    with pytest.raises(UnfinishedTransaction):
        list(committed_records([BEGIN, feature(1)]))


# --- replaying


def led(**changes: object) -> PartitionImage:
    """A partition after one change."""
    image = ClusterImage(cluster_id="test")
    apply(image, TopicRecord(name="a", topic_id=TOPIC_ID))
    apply(
        image,
        PartitionRecord(
            partition_id=0,
            topic_id=TOPIC_ID,
            replicas=(1, 2),
            isr=(1, 2),
            removing_replicas=(),
            adding_replicas=(3,),
            leader=1,
            leader_epoch=4,
            partition_epoch=9,
            directories=(TOPIC_ID, TOPIC_ID),
        ),
    )
    change = PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID)
    apply(image, change.replace(**changes))
    return image.topics["a"].partitions[0]


def test_a_change_without_a_leader_keeps_leader_and_epoch() -> None:
    partition = led(isr=(1,))
    assert (partition.leader, partition.leader_epoch, partition.partition_epoch) == (1, 4, 10)
    assert (partition.in_sync, partition.replicas, partition.adding) == ((1,), (1, 2), (3,))


@pytest.mark.parametrize("leader", [1, 2, -1])
def test_a_change_with_the_same_leader_increments_the_leader_epoch(leader: int) -> None:
    partition = led(leader=leader)
    assert (partition.leader, partition.leader_epoch, partition.partition_epoch) == (leader, 5, 10)


def test_an_empty_list_clears_and_a_null_list_keeps() -> None:
    assert led(adding_replicas=()).adding == ()
    assert led(adding_replicas=None).adding == (3,)


def test_a_broker_is_registered_unfenced_fenced_and_unregistered() -> None:
    image = ClusterImage(cluster_id="test")
    apply(
        image,
        RegisterBrokerRecord(
            broker_id=1,
            incarnation_id=TOPIC_ID,
            broker_epoch=5,
            end_points=(),
            features=(),
            rack="r",
        ),
    )
    assert image.brokers[1].fenced
    apply(image, UnfenceBrokerRecord(id=1, epoch=5))
    assert not image.brokers[1].fenced
    apply(image, FenceBrokerRecord(id=1, epoch=5))
    assert image.brokers[1].fenced
    apply(image, UnregisterBrokerRecord(broker_id=1, broker_epoch=5))
    assert not image.brokers


def test_level_0_removes_a_feature() -> None:
    image = ClusterImage(cluster_id="test")
    apply(image, feature(30))
    apply(image, feature(0))
    assert image.features == {}


@pytest.mark.parametrize(
    ("name", "level", "is_refused"),
    [
        ("eligible.leader.replicas.version", 1, False),
        ("share.version", 1, False),
        ("streams.version", 1, False),
        ("share.version", 2, True),
        ("kraft.version", 1, True),
        ("unheard.of", 1, True),
    ],
)
def test_features_that_apache_kafka_finalizes_by_default_are_accepted(
    name: str, level: int, *, is_refused: bool
) -> None:
    assert bool(refuse_features({name: level})) is is_refused


@pytest.mark.parametrize("named", ["topic", ""], ids=["of one topic", "of all"])
def test_clear_elr_removes_eligible_and_last_known_replicas(named: str) -> None:
    image = image_with_eligible(eligible=(1,), last_known=(2,))
    (partition,) = image.topics["topic"].partitions
    assert (partition.eligible, partition.last_known) == ((1,), (2,))
    apply(image, ClearElrRecord(topic_name=named))
    (partition,) = image.topics["topic"].partitions
    assert (partition.eligible, partition.last_known) == ((), ())


def test_a_record_type_that_an_image_does_not_keep_is_refused() -> None:
    with pytest.raises(UnsupportedRecord, match="ClientQuotaRecord"):
        apply(
            ClusterImage(cluster_id="test"),
            ClientQuotaRecord(entity=(), key="k", value=1.0, remove=False),
        )
