"""Decisions on topics as tables; Apache Kafka must answer the same requests in the same way."""

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from pykbroker.controller.brokers import register_broker, unfence_broker
from pykbroker.controller.topics import TopicRules
from pykbroker.controller_access import BrokerRegistration, NewPartitions, NewTopic
from pykbroker.metadata.image import ClusterImage, TopicImage
from pykbroker.settings import load_settings, refuse_topic_overrides
from pykbroker_protocol.errors import ErrorCode, Refusal
from pykbroker_protocol.message import ZERO_UUID
from pykbroker_protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from pykbroker_protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from pykbroker_protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from pykbroker_protocol.metadata.topics import PartitionRecord, TopicRecord
from tests.controller.unsliced import create_partitions, create_topics, delete_topics, replay
from tests.metadata.replaying import apply

SEED = "refusals_seed.x"
LONG_NAME = "a" * 250

BAD_NAME = ErrorCode.INVALID_TOPIC_EXCEPTION
BAD_COUNT = ErrorCode.INVALID_PARTITIONS
BAD_FACTOR = ErrorCode.INVALID_REPLICATION_FACTOR
BAD_ASSIGNMENT = ErrorCode.INVALID_REPLICA_ASSIGNMENT
BAD_CONFIG = ErrorCode.INVALID_CONFIG
BAD_REQUEST = ErrorCode.INVALID_REQUEST
TOO_MUCH = ErrorCode.POLICY_VIOLATION

LETTERS = "contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
NOT_POSITIVE = "Number of partitions was set to an invalid non-positive value."
NO_FACTOR = "Replication factor must be larger than 0, or -1 to use the default value."
CROWDED = (
    "Unable to replicate the partition 2 time(s): The target replication factor of 2 cannot be "
    "reached because only 1 broker(s) are registered or some brokers have all their log "
    "directories cordoned."
)
MANUAL = "A manual partition assignment was specified, but "
INCLUDES = "The manual partition assignment includes "
GAP = "partitions should be a consecutive 0-based integer sequence"


def topic(name: str = "refusals-new", partitions: int = -1, factor: int = -1) -> NewTopic:
    return NewTopic(name=name, partitions=partitions, replication_factor=factor)


def assigned(*pairs: tuple[int, Sequence[int]], partitions: int = -1, factor: int = -1) -> NewTopic:
    return NewTopic(
        name="refusals-new", partitions=partitions, replication_factor=factor, assignments=pairs
    )


def configured(
    configuration: dict[str, str | None], name: str = "refusals-new", partitions: int = 1
) -> NewTopic:
    return NewTopic(name=name, partitions=partitions, configuration=configuration)


CREATED: list[tuple[str, NewTopic, Refusal | None]] = [
    ("defaults", topic(), None),
    ("numbers", topic(partitions=3, factor=1), None),
    (
        "existing",
        topic(SEED),
        Refusal(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{SEED}' already exists."),
    ),
    (
        "existing before bad numbers",
        topic(SEED, 0, 0),
        Refusal(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{SEED}' already exists."),
    ),
    (
        "empty",
        topic(""),
        Refusal(BAD_NAME, "Topic name is invalid: the empty string is not allowed"),
    ),
    ("dot", topic("."), Refusal(BAD_NAME, "Topic name is invalid: '.' is not allowed")),
    ("dots", topic(".."), Refusal(BAD_NAME, "Topic name is invalid: '..' is not allowed")),
    (
        "long",
        topic(LONG_NAME),
        Refusal(
            BAD_NAME,
            f"Topic name is invalid: the length of '{LONG_NAME}' is longer than the max "
            "allowed length 249",
        ),
    ),
    ("longest", topic("b" * 249), None),
    ("blank", topic("a b"), Refusal(BAD_NAME, f"Topic name is invalid: 'a b' {LETTERS}")),
    ("umlaut", topic("ü"), Refusal(BAD_NAME, f"Topic name is invalid: 'ü' {LETTERS}")),
    (
        "colliding",
        topic("refusals.seed_x"),
        Refusal(BAD_NAME, f"Topic 'refusals.seed_x' collides with existing topic: {SEED}"),
    ),
    (
        "of the cluster",
        topic("__cluster_metadata"),
        Refusal(BAD_REQUEST, "Creation of internal topic __cluster_metadata is prohibited."),
    ),
    ("no partitions", topic(partitions=0, factor=1), Refusal(BAD_COUNT, NOT_POSITIVE)),
    ("-2 partitions", topic(partitions=-2, factor=1), Refusal(BAD_COUNT, NOT_POSITIVE)),
    ("factor 0", topic(partitions=1, factor=0), Refusal(BAD_FACTOR, NO_FACTOR)),
    ("factor -2", topic(partitions=1, factor=-2), Refusal(BAD_FACTOR, NO_FACTOR)),
    ("factor 2", topic(partitions=1, factor=2), Refusal(BAD_FACTOR, CROWDED)),
    ("factor before partitions", topic(partitions=0, factor=0), Refusal(BAD_FACTOR, NO_FACTOR)),
    ("assigned", assigned((0, [1]), (1, [1])), None),
    (
        "both numbers and assignment",
        assigned((0, [1]), partitions=1, factor=1),
        Refusal(BAD_REQUEST, f"{MANUAL}replication factor was not set to -1."),
    ),
    (
        "partitions and assignment",
        assigned((0, [1]), partitions=1),
        Refusal(BAD_REQUEST, f"{MANUAL}numPartitions was not set to -1."),
    ),
    ("a gap", assigned((0, [1]), (2, [1])), Refusal(BAD_ASSIGNMENT, GAP)),
    ("not from 0", assigned((1, [1])), Refusal(BAD_ASSIGNMENT, GAP)),
    (
        "partition twice",
        assigned((0, [1]), (0, [1])),
        Refusal(BAD_ASSIGNMENT, "Found multiple manual partition assignments for partition 0"),
    ),
    (
        "no replicas",
        assigned((0, [])),
        Refusal(BAD_ASSIGNMENT, f"{INCLUDES}an empty replica list."),
    ),
    (
        "broker twice",
        assigned((0, [1, 1])),
        Refusal(BAD_ASSIGNMENT, f"{INCLUDES}the broker 1 more than once."),
    ),
    (
        "unknown brokers",
        assigned((0, [9, 7, 1])),
        Refusal(BAD_ASSIGNMENT, f"{INCLUDES}broker 7, but no such broker is registered."),
    ),
    (
        "unknown configuration",
        configured({"nope": "1"}, partitions=0),
        Refusal(BAD_CONFIG, "Unknown topic config name: nope"),
    ),
    (
        "bad value",
        configured({"retention.ms": "x"}),
        Refusal(
            BAD_CONFIG,
            "Invalid value x for configuration retention.ms: Not a number of type LONG",
        ),
    ),
    (
        "nulls",
        configured({"retention.ms": None, "nope": None}),
        Refusal(BAD_CONFIG, "Null value not supported for topic configs: retention.ms,nope"),
    ),
    (
        "10,001 partitions",
        topic(partitions=10_001),
        Refusal(TOO_MUCH, "Excessively large number of partitions per request."),
    ),
    (
        "10,000 partitions",
        topic(partitions=10_000),
        Refusal(TOO_MUCH, "Unable to perform excessively large batch operation."),
    ),
]


def more(count: int, assignments: Sequence[Sequence[int]] | None = None) -> NewPartitions:
    return NewPartitions(name=SEED, count=count, assignments=assignments)


def attempted(additional: int, given: int) -> Refusal:
    return Refusal(
        BAD_ASSIGNMENT,
        f"Attempted to add {additional} additional partition(s), but only {given} "
        "assignment(s) were specified.",
    )


def no_increase(count: int) -> Refusal:
    return Refusal(
        BAD_COUNT,
        f"The topic {SEED} currently has 3 partition(s); {count} would not be an increase.",
    )


GROWN: list[tuple[str, NewPartitions, Refusal | None]] = [
    ("one more", more(4), None),
    ("one more, assigned", more(4, [[1]]), None),
    (
        "unknown",
        NewPartitions(name="refusals-nope", count=3),
        Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ),
    ("as many", more(3), Refusal(BAD_COUNT, "Topic already has 3 partition(s).")),
    ("fewer", more(2), no_increase(2)),
    ("none", more(0), no_increase(0)),
    ("-1", more(-1), no_increase(-1)),
    ("too few assignments", more(5, [[1]]), attempted(2, 1)),
    ("too many assignments", more(4, [[1], [1]]), attempted(1, 2)),
    ("no assignments", more(4, []), attempted(1, 0)),
    (
        "no replicas",
        more(4, [[]]),
        Refusal(BAD_ASSIGNMENT, f"{INCLUDES}an empty replica list."),
    ),
    (
        "unknown broker",
        more(4, [[7]]),
        Refusal(BAD_ASSIGNMENT, f"{INCLUDES}broker 7, but no such broker is registered."),
    ),
    (
        "broker twice",
        more(4, [[1, 1]]),
        Refusal(BAD_ASSIGNMENT, f"{INCLUDES}the broker 1 more than once."),
    ),
]

UNKNOWN_ID = b"x" * 16
DELETED: list[tuple[str, str | bytes, Refusal]] = [
    (
        "unknown name",
        "refusals-nope",
        Refusal(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."
        ),
    ),
    (
        "unknown id",
        UNKNOWN_ID,
        Refusal(ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID."),
    ),
]


def ids(count: int = 0) -> Iterator[bytes]:
    while True:
        count += 1
        yield count.to_bytes(16, "big")


def rules() -> TopicRules:
    settings = load_settings({"node.id": "1"})
    unused = ids()
    return TopicRules(
        default_partitions=1,
        default_replication_factor=1,
        refuse_configuration=lambda given: refuse_topic_overrides(settings, given),
        new_id=lambda: next(unused),
        draw=lambda _: 0,
    )


def cluster(brokers: int = 1) -> ClusterImage:
    image = ClusterImage(cluster_id="test", controller_id=1)
    for broker_id in range(1, brokers + 1):
        registration = BrokerRegistration(
            broker_id=broker_id,
            incarnation_id=UNKNOWN_ID,
            listeners={},
            rack=None,
            directories=(broker_id.to_bytes(16, "big"),),
        )
        replay(image, register_broker(registration, next_offset=broker_id).records)
        replay(image, unfence_broker(image, broker_id).records)
    seed = create_topics(image, [topic(SEED, 3, 1)], rules())
    replay(image, seed.records)
    return image


@pytest.mark.parametrize(
    ("requested", "expected"), [it[1:] for it in CREATED], ids=[it[0] for it in CREATED]
)
def test_a_topic_is_created_or_refused(requested: NewTopic, expected: Refusal | None) -> None:
    decision = create_topics(cluster(), [requested], rules())
    (outcome,) = decision.outcome
    if expected is None:
        assert isinstance(outcome, TopicImage)
        assert outcome.name == requested.name
        assert decision.records
    else:
        assert outcome == expected
        assert not decision.records


@pytest.mark.parametrize(
    ("requested", "expected"), [it[1:] for it in GROWN], ids=[it[0] for it in GROWN]
)
def test_partitions_are_added_or_refused(
    requested: NewPartitions, expected: Refusal | None
) -> None:
    decision = create_partitions(cluster(), [requested], lambda _: 0)
    assert decision.outcome == [expected]
    assert bool(decision.records) == (expected is None)


@pytest.mark.parametrize(
    ("named", "expected"), [it[1:] for it in DELETED], ids=[it[0] for it in DELETED]
)
def test_deleting_an_unknown_topic_is_refused(named: str | bytes, expected: Refusal) -> None:
    assert delete_topics(cluster(), [named]).outcome == [expected]


def test_a_topic_named_twice_is_refused_and_the_others_are_created() -> None:
    decision = create_topics(cluster(), [topic("a"), topic("b"), topic("a")], rules())
    twice = Refusal(BAD_REQUEST, "Duplicate topic name.")
    assert [type(it) for it in decision.outcome] == [Refusal, TopicImage, Refusal]
    assert decision.outcome[0] == decision.outcome[2] == twice


def test_the_partitions_of_one_request_are_counted_together() -> None:
    decision = create_topics(cluster(), [topic("a", 6_000), topic(SEED, 6_000)], rules())
    too_many = Refusal(TOO_MUCH, "Excessively large number of partitions per request.")
    assert decision.outcome == [too_many, too_many]


def test_a_command_with_too_many_records_is_refused() -> None:
    image = cluster()
    for number in range(10_001):
        apply(image, TopicRecord(name=f"t{number}", topic_id=number.to_bytes(16, "little")))
    decision = delete_topics(image, [f"t{number}" for number in range(10_001)])
    assert not decision.records
    assert decision.outcome[0] == Refusal(
        TOO_MUCH, "Unable to perform excessively large batch operation."
    )
    assert len(delete_topics(image, ["t1", "t2"]).records) == 2


def test_more_new_partitions_than_a_batch_are_refused() -> None:
    image = cluster()
    too_large = Refusal(TOO_MUCH, "Unable to perform excessively large batch operation.")
    assert create_partitions(image, [more(10_004)], lambda _: 0).outcome == [too_large]
    replay(image, create_topics(image, [topic("other", 1)], rules()).records)
    both = [more(6_000), NewPartitions(name="other", count=6_000)]
    assert create_partitions(image, both, lambda _: 0).outcome == [None, too_large]


def test_a_topic_named_twice_gets_no_new_partitions() -> None:
    twice = Refusal(BAD_REQUEST, "Duplicate topic name.")
    decision = create_partitions(cluster(), [more(4), more(5)], lambda _: 0)
    assert decision.outcome == [twice, twice]


def test_assignments_must_be_of_one_size() -> None:
    decision = create_topics(cluster(brokers=2), [assigned((0, [1]), (1, [1, 2]))], rules())
    assert decision.outcome == [
        Refusal(
            BAD_ASSIGNMENT,
            f"{INCLUDES}a partition with 2 replica(s), but this is not consistent with previous "
            "partitions, which have 1 replica(s).",
        )
    ]


def test_deleting_a_topic_deletes_its_configuration() -> None:
    image = cluster()
    made = create_topics(image, [configured({"retention.ms": "5"}, name="brief")], rules())
    replay(image, made.records)
    assert image.configurations == {(2, "brief"): {"retention.ms": "5"}}
    changes = replay(image, delete_topics(image, ["brief"]).records)
    assert [it.name for it in changes.topics_deleted] == ["brief"]
    assert image.configurations == {}
    assert list(image.topics) == [SEED]


def test_fenced_replicas_are_not_in_sync() -> None:
    image = cluster(brokers=2)
    registration = BrokerRegistration(
        broker_id=3, incarnation_id=UNKNOWN_ID, listeners={}, rack=None, directories=()
    )
    replay(image, register_broker(registration, next_offset=30).records)
    decision = create_topics(image, [assigned((0, [3, 2]))], rules())
    (partition,) = [it for it in decision.records if isinstance(it, PartitionRecord)]
    assert (partition.leader, partition.isr) == (2, (2,))
    assert partition.directories == (ZERO_UUID, (2).to_bytes(16, "big"))
    (refused,) = create_topics(image, [assigned((0, [3]))], rules()).outcome
    assert refused == Refusal(
        BAD_ASSIGNMENT,
        "All brokers specified in the manual partition assignment for partition 0 are fenced or "
        "in controlled shutdown.",
    )


# --- the same requests to Apache Kafka


CODES = {int(code): code for code in ErrorCode}


def refusal_of(code: int, message: str | None) -> Refusal | None:
    return Refusal(CODES[code], message) if code else None


def creatable(requested: NewTopic) -> CreatableTopic:
    return CreatableTopic(
        name=requested.name,
        num_partitions=requested.partitions,
        replication_factor=requested.replication_factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=brokers)
            for index, brokers in requested.assigned()
        ],
        configs=[
            CreatableTopicConfig(name=name, value=value)
            for name, value in requested.configuration.items()
        ],
    )


@pytest.fixture
def ask_seeded(ask_apache: Any) -> Any:
    request = CreateTopicsRequest(topics=[creatable(topic(SEED, 3, 1))])
    ask_apache(request, 7, CreateTopicsResponse)
    return ask_apache


def test_apache_kafka_refuses_new_topics_with_the_same_messages(ask_seeded: Any) -> None:
    for case, requested, expected in CREATED:
        request = CreateTopicsRequest(topics=[creatable(requested)], validate_only=True)
        (row,) = ask_seeded(request, 7, CreateTopicsResponse).topics
        assert refusal_of(row.error_code, row.error_message) == expected, case


def test_apache_kafka_refuses_new_partitions_with_the_same_messages(ask_seeded: Any) -> None:
    for case, requested, expected in GROWN:
        assignments = requested.assignments
        row = CreatePartitionsTopic(
            name=requested.name,
            count=requested.count,
            assignments=None
            if assignments is None
            else [CreatePartitionsAssignment(broker_ids=it) for it in assignments],
        )
        request = CreatePartitionsRequest(topics=[row], timeout_ms=5_000, validate_only=True)
        (result,) = ask_seeded(request, 3, CreatePartitionsResponse).results
        assert refusal_of(result.error_code, result.error_message) == expected, case


def test_apache_kafka_refuses_deletions_with_the_same_messages(ask_seeded: Any) -> None:
    for case, named, expected in DELETED:
        row = (
            DeleteTopicState(name=named)
            if isinstance(named, str)
            else DeleteTopicState(topic_id=named)
        )
        request = DeleteTopicsRequest(topics=[row], timeout_ms=5_000)
        (result,) = ask_seeded(request, 6, DeleteTopicsResponse).responses
        assert refusal_of(result.error_code, result.error_message) == expected, case
