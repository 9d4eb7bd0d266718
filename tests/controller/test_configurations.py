"""Configuration changes as tables; Apache Kafka must answer the same requests in the same way."""

from collections.abc import Sequence
from typing import Any

import pytest

from compat.apache import ApacheKafka
from pykbroker.controller_access import ConfigurationChange, ConfigurationReplacement
from pykbroker.metadata.image import ClusterImage
from pykbroker.settings import load_settings
from pykbroker_protocol.errors import ErrorCode, Refusal
from pykbroker_protocol.messages import alter_configs
from pykbroker_protocol.messages import incremental_alter_configs as incremental
from pykbroker_protocol.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from pykbroker_protocol.metadata.topics import ConfigRecord, TopicRecord
from tests.controller.unsliced import alter_configurations, replace_configurations, replay
from tests.metadata.replaying import apply

TOPIC, BROKER = 2, 4
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
SEED = "configurations-seed"
SETTINGS = load_settings({"node.id": "1"})

Operation = tuple[str, int, str | None]


def bad_config(message: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_CONFIG, message)


def bad_request(message: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_REQUEST, message)


UNKNOWN_NAME = bad_config("Unknown topic config name: nope")
BAD_VALUE = bad_config("Invalid value x for configuration retention.ms: Not a number of type LONG")
NO_TOPIC = Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The topic 'nope' does not exist.")
BAD_NAME = Refusal(
    ErrorCode.INVALID_TOPIC_EXCEPTION,
    "Topic name is invalid: 'a b' contains one or more characters other than ASCII "
    "alphanumerics, '.', '_' and '-'",
)
SET_RETENTION: Operation = ("retention.ms", SET, "5")

ALTERED: list[tuple[str, int, str, list[Operation], Refusal | None]] = [
    ("set", TOPIC, SEED, [SET_RETENTION], None),
    ("nothing", TOPIC, SEED, [], None),
    ("unknown topic", TOPIC, "nope", [SET_RETENTION], NO_TOPIC),
    (
        "no topic",
        TOPIC,
        "",
        [SET_RETENTION],
        bad_request("Default topic resources are not allowed."),
    ),
    ("bad topic", TOPIC, "a b", [SET_RETENTION], BAD_NAME),
    ("unknown name", TOPIC, SEED, [("nope", SET, "5")], UNKNOWN_NAME),
    ("empty name", TOPIC, SEED, [("", SET, "5")], bad_config("Unknown topic config name: ")),
    ("bad value", TOPIC, SEED, [("retention.ms", SET, "x")], BAD_VALUE),
    (
        "empty value",
        TOPIC,
        SEED,
        [("retention.ms", SET, "")],
        bad_config("Invalid value  for configuration retention.ms: Not a number of type LONG"),
    ),
    (
        "value out of range",
        TOPIC,
        SEED,
        [("min.insync.replicas", SET, "0")],
        bad_config(
            "Invalid value 0 for configuration min.insync.replicas: Value must be at least 1"
        ),
    ),
    (
        "the unknown name first",
        TOPIC,
        SEED,
        [("retention.ms", SET, "x"), ("nope", SET, "5")],
        UNKNOWN_NAME,
    ),
    ("delete what is unknown", TOPIC, SEED, [("nope", DELETE, None)], None),
    ("delete what is not set", TOPIC, SEED, [("segment.bytes", DELETE, None)], None),
    (
        "set to null",
        TOPIC,
        SEED,
        [("retention.ms", SET, None)],
        bad_request("Null value not supported for : retention.ms"),
    ),
    (
        "append null",
        TOPIC,
        SEED,
        [("cleanup.policy", APPEND, None)],
        bad_request("Null value not supported for : cleanup.policy"),
    ),
    (
        "append to no list",
        TOPIC,
        SEED,
        [("retention.ms", APPEND, "5")],
        bad_config("Can't APPEND to key retention.ms because its type is not LIST."),
    ),
    (
        "append to what is unknown",
        TOPIC,
        SEED,
        [("nope", APPEND, "x")],
        bad_config("Can't APPEND to key nope because its type is not LIST."),
    ),
    ("append", TOPIC, SEED, [("cleanup.policy", APPEND, "compact")], None),
    ("append what is there", TOPIC, SEED, [("cleanup.policy", APPEND, "delete")], None),
    ("append a list", TOPIC, SEED, [("cleanup.policy", APPEND, "compact,delete")], None),
    (
        "append what is not allowed",
        TOPIC,
        SEED,
        [("cleanup.policy", APPEND, "x")],
        bad_config(
            "Invalid value x for configuration cleanup.policy: String must be one of: "
            "compact, delete"
        ),
    ),
    (
        "append nothing",
        TOPIC,
        SEED,
        [("cleanup.policy", APPEND, "")],
        bad_config("Configuration 'cleanup.policy' values must not be empty."),
    ),
    ("subtract all", TOPIC, SEED, [("cleanup.policy", SUBTRACT, "delete")], None),
    (
        "subtract what is not there",
        TOPIC,
        SEED,
        [("leader.replication.throttled.replicas", SUBTRACT, "1:1")],
        None,
    ),
    (
        "a name twice",
        TOPIC,
        SEED,
        [SET_RETENTION, ("retention.ms", SET, "6")],
        bad_request("Error due to duplicate config keys"),
    ),
    ("broker", BROKER, "1", [("log.retention.ms", SET, "5000")], None),
    ("all brokers", BROKER, "", [("log.retention.ms", SET, "5000")], None),
    (
        "another broker",
        BROKER,
        "7",
        [("log.retention.ms", SET, "5000")],
        bad_request("Unexpected broker id, expected 1, but received 7"),
    ),
    (
        "no broker id",
        BROKER,
        "x",
        [("log.retention.ms", SET, "5000")],
        bad_request("Node id must be an integer, but it is: x"),
    ),
    (
        "read only",
        BROKER,
        "1",
        [("node.id", SET, "5")],
        bad_request("Cannot update these configs dynamically: [node.id]"),
    ),
    (
        "bad value of a broker",
        BROKER,
        "1",
        [("log.retention.ms", SET, "x")],
        bad_request(
            "Invalid value x for configuration log.retention.ms: Not a number of type LONG"
        ),
    ),
    (
        "a broker's own, for all",
        BROKER,
        "",
        [("listeners", SET, "PLAINTEXT://:1")],
        bad_request(
            "Cannot update these configs at default cluster level, broker id must be specified: "
            "[listeners]"
        ),
    ),
    ("no resource", 0, "x", [SET_RETENTION], bad_request("Unknown resource type 0")),
    ("strange resource", 99, "x", [SET_RETENTION], bad_request("Unknown resource type 99")),
]

REPLACED: list[tuple[str, int, str, list[tuple[str, str | None]], Refusal | None]] = [
    ("set", TOPIC, SEED, [("retention.ms", "5")], None),
    ("unknown topic", TOPIC, "nope", [("retention.ms", "5")], NO_TOPIC),
    ("unknown name", TOPIC, SEED, [("nope", "5")], UNKNOWN_NAME),
    ("bad value", TOPIC, SEED, [("retention.ms", "x")], BAD_VALUE),
    (
        "null",
        TOPIC,
        SEED,
        [("retention.ms", None)],
        bad_request("Null value not supported for : retention.ms"),
    ),
    (
        "a name twice",
        TOPIC,
        SEED,
        [("retention.ms", "5"), ("retention.ms", "5")],
        bad_request("Error due to duplicate config keys"),
    ),
    (
        "a name twice, once without a value",
        TOPIC,
        SEED,
        [("retention.ms", "5"), ("retention.ms", None)],
        bad_request("Error due to duplicate config keys"),
    ),
]


def cluster(**overrides: str) -> ClusterImage:
    image = ClusterImage(cluster_id="test", controller_id=1)
    apply(image, TopicRecord(name=SEED, topic_id=bytes(16)))
    for name, value in overrides.items():
        apply(
            image,
            ConfigRecord(
                resource_type=TOPIC,
                resource_name=SEED,
                name=name.replace("_", "."),
                value=value,
            ),
        )
    return image


def change(kind: int, name: str, operations: Sequence[Operation]) -> ConfigurationChange:
    return ConfigurationChange(resource_type=kind, name=name, operations=operations)


@pytest.mark.parametrize(
    ("kind", "name", "operations", "expected"),
    [it[1:] for it in ALTERED],
    ids=[it[0] for it in ALTERED],
)
def test_property_values_are_changed_or_refused(
    kind: int, name: str, operations: list[Operation], expected: Refusal | None
) -> None:
    decision = alter_configurations(cluster(), [change(kind, name, operations)], SETTINGS)
    assert decision.outcome == [expected]
    if expected is not None:
        assert not decision.records


@pytest.mark.parametrize(
    ("kind", "name", "values", "expected"),
    [it[1:] for it in REPLACED],
    ids=[it[0] for it in REPLACED],
)
def test_all_property_values_are_replaced_or_refused(
    kind: int, name: str, values: list[tuple[str, str | None]], expected: Refusal | None
) -> None:
    replacement = ConfigurationReplacement(resource_type=kind, name=name, values=values)
    decision = replace_configurations(cluster(), [replacement], SETTINGS)
    assert decision.outcome == [expected]


@pytest.mark.parametrize(
    ("before", "operations", "after"),
    [
        ({}, [("cleanup.policy", APPEND, "compact")], {"cleanup.policy": "delete,compact"}),
        ({}, [("cleanup.policy", SUBTRACT, "delete")], {"cleanup.policy": ""}),
        (
            {"cleanup_policy": "compact"},
            [("cleanup.policy", APPEND, "compact")],
            {"cleanup.policy": "compact"},
        ),
        ({"retention_ms": "5"}, [("retention.ms", DELETE, None)], {}),
        (
            {"retention_ms": "5"},
            [("segment.ms", SET, "7")],
            {"retention.ms": "5", "segment.ms": "7"},
        ),
    ],
)
def test_an_alteration_keeps_other_values(
    before: dict[str, str], operations: list[Operation], after: dict[str, str]
) -> None:
    image = cluster(**before)
    decision = alter_configurations(image, [change(TOPIC, SEED, operations)], SETTINGS)
    replay(image, decision.records)
    assert image.configurations.get((TOPIC, SEED), {}) == after


def test_a_replacement_removes_values_that_it_does_not_name() -> None:
    image = cluster(retention_ms="5", segment_ms="7")
    replacement = ConfigurationReplacement(
        resource_type=TOPIC, name=SEED, values=[("segment.ms", "7")]
    )
    records = replace_configurations(image, [replacement], SETTINGS).records
    assert records == [
        ConfigRecord(resource_type=TOPIC, resource_name=SEED, name="retention.ms", value=None)
    ]


def test_a_resource_named_twice_is_refused_and_others_are_changed() -> None:
    image = cluster()
    apply(image, TopicRecord(name="other", topic_id=b"o" * 16))
    changes = [change(TOPIC, name, [SET_RETENTION]) for name in (SEED, "other", SEED)]
    twice = bad_request("Each resource must appear at most once.")
    assert alter_configurations(image, changes, SETTINGS).outcome == [twice, None, twice]


def test_an_unknown_operation_is_refused() -> None:
    decision = alter_configurations(
        cluster(), [change(TOPIC, SEED, [("retention.ms", 9, "5")])], SETTINGS
    )
    assert decision.outcome == [bad_request("Unknown operation type 9")]


# --- the same requests to Apache Kafka

CODES = {int(code): code for code in ErrorCode}


def refusal_of(code: int, message: str | None) -> Refusal | None:
    return Refusal(CODES[code], message) if code else None


@pytest.fixture
def ask_seeded(ask_apache: Any) -> Any:
    row = CreatableTopic(
        name=SEED, num_partitions=1, replication_factor=1, assignments=(), configs=()
    )
    ask_apache(CreateTopicsRequest(topics=[row]), 7, CreateTopicsResponse)
    return ask_apache


def alteration(
    kind: int, name: str, operations: Sequence[Operation], *, validate_only: bool
) -> incremental.IncrementalAlterConfigsRequest:
    rows = [
        incremental.AlterableConfig(name=key, config_operation=operation, value=value)
        for key, operation, value in operations
    ]
    resource = incremental.AlterConfigsResource(
        resource_type=kind, resource_name=name, configs=rows
    )
    return incremental.IncrementalAlterConfigsRequest(
        resources=[resource], validate_only=validate_only
    )


def replacement(
    kind: int, name: str, values: list[tuple[str, str | None]]
) -> alter_configs.AlterConfigsRequest:
    rows = [alter_configs.AlterableConfig(name=key, value=value) for key, value in values]
    resource = alter_configs.AlterConfigsResource(
        resource_type=kind, resource_name=name, configs=rows
    )
    return alter_configs.AlterConfigsRequest(resources=[resource], validate_only=True)


def test_apache_kafka_refuses_alterations_with_the_same_messages(ask_seeded: Any) -> None:
    for case, kind, name, operations, expected in ALTERED:
        request = alteration(kind, name, operations, validate_only=True)
        (row,) = ask_seeded(request, 1, incremental.IncrementalAlterConfigsResponse).responses
        assert refusal_of(row.error_code, row.error_message) == expected, case


def test_apache_kafka_refuses_replacements_with_the_same_messages(ask_seeded: Any) -> None:
    for case, kind, name, values, expected in REPLACED:
        request = replacement(kind, name, values)
        (row,) = ask_seeded(request, 2, alter_configs.AlterConfigsResponse).responses
        assert refusal_of(row.error_code, row.error_message) == expected, case


def test_apache_kafka_appends_to_the_same_default_value(
    ask_seeded: Any, apache: ApacheKafka
) -> None:
    append: list[Operation] = [("cleanup.policy", APPEND, "compact")]
    forget: list[Operation] = [("cleanup.policy", DELETE, None)]
    for operations, shown in [(append, "cleanup.policy=delete,compact "), (forget, "")]:
        request = alteration(TOPIC, SEED, operations, validate_only=False)
        ask_seeded(request, 1, incremental.IncrementalAlterConfigsResponse)
        assert shown in apache.tool("configs", "--describe", "--topic", SEED).stdout
