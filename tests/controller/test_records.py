"""How records lie in the log, and which of them count."""

import pytest

from pykbroker.controller.brokers import lead_again
from pykbroker.controller.quorum.state import MalformedQuorumState, QuorumState, next_epoch
from pykbroker.metadata.batches import UnfinishedSpan, record_batch, records_of, without_spans
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
from tests.metadata.replaying import apply

TOPIC_ID = b"t" * 16
BEGIN, END, ABORT = BeginTransactionRecord(), EndTransactionRecord(), AbortTransactionRecord()


def feature(level: int) -> FeatureLevelRecord:
    return FeatureLevelRecord(name="metadata.version", feature_level=level)


def test_the_frame_says_type_and_version() -> None:
    value = encode_record(TopicRecord(name="a", topic_id=TOPIC_ID))
    assert value == bytes([1, 2, 0]) + b"\x02a" + TOPIC_ID + b"\x00"
    assert decode_record(value) == TopicRecord(name="a", topic_id=TOPIC_ID)


def test_every_record_type_of_kafka_is_known() -> None:
    assert sorted(RECORD_TYPES) == [*range(6), 7, 8, 9, 10, 11, 12, 14, 15, *range(17, 29)]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (b"\x02\x02\x00", "frame version 2"),
        (b"\x01\x06\x00", "record type 6 is unknown"),
        (b"\x01\x02\x09", "TopicRecord version 9 is unknown"),
    ],
)
def test_what_is_no_record_is_named(value: bytes, message: str) -> None:
    with pytest.raises(MalformedRecord, match=message):
        decode_record(value)


def test_a_batch_gives_its_records_back() -> None:
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
def test_a_span_counts_when_it_ends(records: list[Message], count: list[int]) -> None:
    assert list(without_spans(records)) == [feature(level) for level in count]


def test_a_span_without_end_is_not_taken_silently() -> None:
    with pytest.raises(UnfinishedSpan):
        list(without_spans([BEGIN, feature(1)]))


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
def test_a_named_leader_is_a_new_epoch_even_if_it_is_the_same(leader: int) -> None:
    partition = led(leader=leader)
    assert (partition.leader, partition.leader_epoch, partition.partition_epoch) == (leader, 5, 10)


def test_an_empty_list_clears_and_a_missing_one_keeps() -> None:
    assert led(adding_replicas=()).adding == ()
    assert led(adding_replicas=None).adding == (3,)


def test_brokers_come_are_let_in_fenced_and_go() -> None:
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


def test_a_feature_at_level_0_is_none() -> None:
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
def test_what_apache_has_finalized_by_default_keeps_no_cluster_from_going_on_here(
    name: str, level: int, *, is_refused: bool
) -> None:
    assert bool(refuse_features({name: level})) is is_refused


@pytest.mark.parametrize("named", ["topic", ""], ids=["of one topic", "of all"])
def test_who_was_eligible_is_no_longer(named: str) -> None:
    image = image_with_eligible(eligible=(1,), last_known=(2,))
    (partition,) = image.topics["topic"].partitions
    assert (partition.eligible, partition.last_known) == ((1,), (2,))
    apply(image, ClearElrRecord(topic_name=named))
    (partition,) = image.topics["topic"].partitions
    assert (partition.eligible, partition.last_known) == ((), ())


@pytest.mark.parametrize(
    ("eligible", "last_known", "leads"),
    [((1,), (1,), True), ((), (1,), True), ((2,), (1,), False), ((), (), False)],
)
def test_the_last_that_was_in_sync_leads_again(
    eligible: tuple[int, ...], last_known: tuple[int, ...], *, leads: bool
) -> None:
    image = image_with_eligible(eligible=eligible, last_known=last_known)
    for record in lead_again(image, 1, was_clean=True):
        apply(image, record)
    (partition,) = image.topics["topic"].partitions
    assert (partition.leader, partition.in_sync) == ((1, (1,)) if leads else (-1, ()))
    assert not leads or not partition.eligible


def image_with_eligible(*, eligible: tuple[int, ...], last_known: tuple[int, ...]) -> ClusterImage:
    """A partition that nobody leads, as Apache Kafka leaves it behind."""
    image = ClusterImage(cluster_id="test")
    apply(image, TopicRecord(name="topic", topic_id=TOPIC_ID))
    apply(
        image,
        PartitionRecord(
            partition_id=0,
            topic_id=TOPIC_ID,
            replicas=(1, 2),
            isr=(1,),
            removing_replicas=(),
            adding_replicas=(),
        ),
    )
    apply(
        image,
        PartitionChangeRecord(
            partition_id=0,
            topic_id=TOPIC_ID,
            leader=-1,
            isr=(),
            eligible_leader_replicas=eligible,
            last_known_elr=last_known,
        ),
    )
    return image


def test_a_record_the_image_cannot_keep_is_refused() -> None:
    with pytest.raises(UnsupportedRecord, match="ClientQuotaRecord"):
        apply(
            ClusterImage(cluster_id="test"),
            ClientQuotaRecord(entity=(), key="k", value=1.0, remove=False),
        )


# --- the voter's state

BY_APACHE = (
    b'{"clusterId":"","leaderId":1,"leaderEpoch":1,"votedId":-1,"appliedOffset":0,'
    b'"currentVoters":[{"voterId":1}],"data_version":0}'
)


def test_the_quorum_state_is_written_as_apache_kafka_writes_it() -> None:
    state = next_epoch(QuorumState(), node_id=1, last_epoch_in_log=-1)
    assert state.encode() == BY_APACHE
    assert QuorumState.decode(BY_APACHE) == state


@pytest.mark.parametrize(
    ("known", "in_log", "expected"), [(0, -1, 1), (3, 3, 4), (3, 7, 8), (7, 3, 8)]
)
def test_an_epoch_is_greater_than_any_before(known: int, in_log: int, expected: int) -> None:
    state = next_epoch(QuorumState(leader_epoch=known), node_id=1, last_epoch_in_log=in_log)
    assert state.leader_epoch == expected


@pytest.mark.parametrize("text", [b"", b"{}", b"[]", b'{"data_version":2}', b'{"data_version":0}'])
def test_a_broken_quorum_state_is_named(text: bytes) -> None:
    with pytest.raises(MalformedQuorumState):
        QuorumState.decode(text)
