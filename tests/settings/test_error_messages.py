"""Error messages for invalid property values are those of Apache Kafka 4.3.1."""

import pytest

from pykbroker.settings import (
    AlterOperation,
    altered_list,
    load_settings,
    refuse_broker_operation,
    refuse_broker_properties,
    refuse_topic_operation,
    refuse_topic_overrides,
    validate_topic_override,
)

CODECS = "uncompressed, zstd, lz4, snappy, gzip, producer"
REPLICAS = (
    "leader.replication.throttled.replicas must be the literal '*' or a list of replicas in the "
    "following format: [partitionId]:[brokerId],[partitionId]:[brokerId],..."
)

BAD_TYPES = [
    ("retention.ms", "abc", "Not a number of type LONG"),
    ("retention.ms", "", "Not a number of type LONG"),
    ("retention.ms", "5_000", "Not a number of type LONG"),
    ("retention.ms", "99999999999999999999", "Not a number of type LONG"),
    ("min.compaction.lag.ms", "9223372036854775808", "Not a number of type LONG"),
    ("flush.ms", "0x5", "Not a number of type LONG"),
    ("segment.bytes", "1.5", "Not a number of type INT"),
    ("segment.bytes", "3000000000", "Not a number of type INT"),
    ("preallocate", "yes", "Expected value to be either true or false"),
    ("preallocate", "", "Expected value to be either true or false"),
    ("min.cleanable.dirty.ratio", "abc", "Not a number of type DOUBLE"),
    ("min.cleanable.dirty.ratio", "infinity", "Not a number of type DOUBLE"),
    ("min.cleanable.dirty.ratio", "1_0", "Not a number of type DOUBLE"),
    ("min.cleanable.dirty.ratio", "1.2.3", "Not a number of type DOUBLE"),
    ("min.cleanable.dirty.ratio", "+-Infinity", "Not a number of type DOUBLE"),
    ("min.cleanable.dirty.ratio", "d", "Not a number of type DOUBLE"),
    ("min.cleanable.dirty.ratio", "", "Not a number of type DOUBLE"),
]

OUT_OF_BOUNDS = [
    ("retention.ms", "-2", "Value must be at least -1"),
    ("segment.bytes", "10", "Value must be at least 1048576"),
    ("segment.bytes", "-5", "Value must be at least 1048576"),
    ("segment.ms", "0", "Value must be at least 1"),
    ("segment.index.bytes", "3", "Value must be at least 4"),
    ("max.message.bytes", "-1", "Value must be at least 0"),
    ("flush.messages", "0", "Value must be at least 1"),
    ("min.insync.replicas", "0", "Value must be at least 1"),
    ("local.retention.ms", "-3", "Value must be at least -2"),
    ("compression.gzip.level", "0", "Value must be between 1 and 9 or equal to -1"),
    ("compression.lz4.level", "18", "Value must be no more than 17"),
    ("compression.zstd.level", "23", "Value must be no more than 22"),
    ("compression.zstd.level", "-131073", "Value must be at least -131072"),
    ("min.cleanable.dirty.ratio", "1.5", "Value must be no more than 1"),
    ("min.cleanable.dirty.ratio", "-0.1", "Value must be at least 0"),
    ("min.cleanable.dirty.ratio", "Infinity", "Value must be no more than 1"),
    ("cleanup.policy", "foo", "String must be one of: compact, delete"),
    ("cleanup.policy", "Delete", "String must be one of: compact, delete"),
    ("compression.type", "none", f"String must be one of: {CODECS}"),
    ("compression.type", "", f"String must be one of: {CODECS}"),
    ("message.timestamp.type", "createtime", "String must be one of: CreateTime, LogAppendTime"),
]

SENTENCES = [
    ("foo", "1", "Unknown topic config name: foo"),
    ("", "5", "Unknown topic config name: "),
    ("message.downconversion.enable", "true",
     "Unknown topic config name: message.downconversion.enable"),
    ("retention.ms", None, "Null value not supported for topic configs: retention.ms"),
    ("cleanup.policy", "delete,", "Configuration 'cleanup.policy' values must not be empty."),
    ("cleanup.policy", ",", "Configuration 'cleanup.policy' values must not be empty."),
    ("leader.replication.throttled.replicas", "0:1,x",
     f"Invalid value [0:1, x] for configuration leader.replication.throttled.replicas: {REPLICAS}"),
    ("leader.replication.throttled.replicas", "-1:2",
     f"Invalid value [-1:2] for configuration leader.replication.throttled.replicas: {REPLICAS}"),
    ("min.cleanable.dirty.ratio", "12345678",
     ("Invalid value 1.2345678E7 for configuration min.cleanable.dirty.ratio: "
     "Value must be no more than 1")),
    ("min.cleanable.dirty.ratio", "1e9999",
     ("Invalid value Infinity for configuration min.cleanable.dirty.ratio: "
     "Value must be no more than 1")),
]  # fmt: skip

GOOD = [
    ("retention.ms", " 5000 "),
    ("retention.ms", "+5000"),
    ("retention.ms", "٣"),
    ("retention.bytes", "-5"),
    ("preallocate", " TRUE "),
    ("cleanup.policy", ""),
    ("cleanup.policy", "delete, compact"),
    ("cleanup.policy", "delete,delete"),
    ("compression.type", " gzip "),
    ("compression.gzip.level", "-1"),
    ("min.cleanable.dirty.ratio", "5e-1"),
    ("min.cleanable.dirty.ratio", "0.5f"),
    ("min.cleanable.dirty.ratio", ".5d"),
    ("min.cleanable.dirty.ratio", "NaN"),
    ("leader.replication.throttled.replicas", " * "),
    ("leader.replication.throttled.replicas", "0:1, 1:2"),
    ("leader.replication.throttled.replicas", "0:1,"),
    ("internal.segment.bytes", "1000"),
    ("remote.storage.enable", "false"),
]


@pytest.mark.parametrize(("name", "value", "reason"), [*BAD_TYPES, *OUT_OF_BOUNDS])
def test_the_message_contains_value_name_and_reason(name: str, value: str, reason: str) -> None:
    expected = f"Invalid value {value} for configuration {name}: {reason}"
    assert validate_topic_override(name, value) == expected


@pytest.mark.parametrize(("name", "value", "sentence"), SENTENCES)
def test_some_errors_have_their_own_format(name: str, value: str | None, sentence: str) -> None:
    assert validate_topic_override(name, value) == sentence


@pytest.mark.parametrize(("name", "value"), GOOD)
def test_values_that_apache_kafka_accepts_are_accepted(name: str, value: str) -> None:
    assert validate_topic_override(name, value) is None


TOGETHER = [
    ({}, None),
    ({"retention.ms": "abc", "foo": "1"}, "Unknown topic config name: foo"),
    ({"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"},
     "conflict topic config setting min.compaction.lag.ms (10) > max.compaction.lag.ms (5)"),
    ({"remote.storage.enable": "true"},
     ("Tiered Storage functionality is disabled in the broker. "
     "Topic cannot be configured with remote log storage.")),
    ({"remote.storage.enable": "true", "retention.ms": "x"},
     "Invalid value x for configuration retention.ms: Not a number of type LONG"),
    ({"segment.ms": "5", "retention.ms": None},
     "Null value not supported for topic configs: retention.ms"),
]  # fmt: skip


@pytest.mark.parametrize(("overrides", "sentence"), TOGETHER)
def test_overrides_of_a_topic_are_validated_together(
    overrides: dict[str, str | None], sentence: str | None
) -> None:
    assert refuse_topic_overrides(load_settings(), overrides) == sentence


BROKER_CHANGES = [
    ({"log.retention.ms": "5000"}, "broker", None),
    ({"log.retention.ms": "abc"}, "broker",
     "Invalid value abc for configuration log.retention.ms: Not a number of type LONG"),
    ({"log.retention.ms": "0"}, "broker",
     ("requirement failed: log.retention.ms must be unlimited (-1) or, "
     "greater than or equal to 1")),
    ({"log.roll.ms": "0"}, "broker",
     "requirement failed: log.roll.ms must be greater than or equal to 1"),
    ({"log.roll.jitter.ms": "-1"}, "broker",
     "requirement failed: log.roll.jitter.ms must be greater than or equal to 0"),
    ({"log.segment.bytes": "1"}, "cluster",
     "Invalid value 1 for configuration log.segment.bytes: Value must be at least 1048576"),
    ({"max.connections.per.ip": "0"}, "broker",
     ("requirement failed: max.connections.per.ip can be set to zero only if "
     "max.connections.per.ip.overrides property is set.")),
    ({"max.connections.per.ip": "0", "max.connections.per.ip.overrides": "127.0.0.1:5"}, "broker",
     None),
    ({"num.partitions": "3", "node.id": "7"}, "broker",
     "Cannot update these configs dynamically: [node.id, num.partitions]"),
    ({"listeners": "PLAINTEXT://:1"}, "cluster",
     ("Cannot update these configs at default cluster level, broker id must be specified: "
     "[listeners]")),
    # Unlike Apache Kafka, PyKBroker rejects unknown names.
    ({"background.threads": "12", "log.retention.ms": "5000"}, "cluster", None),
    ({"background.threads": "x"}, "cluster",
     "Invalid value x for configuration background.threads: Not a number of type INT"),
    ({"background.threads": "0"}, "cluster",
     "Invalid value 0 for configuration background.threads: Value must be at least 1"),
    ({"sasl.kerberos.min.time.before.relogin": "61000"}, "broker", None),
    ({"sasl.kerberos.min.time.before.relogin": "61000"}, "cluster",
     ("Cannot update these configs at default cluster level, broker id must be specified: "
      "[sasl.kerberos.min.time.before.relogin]")),
    ({"metric.reporters": ""}, "cluster", None),
    ({"ssl.provider": "x"}, "broker",
     "ssl.provider: TLS is not supported; remove this property"),
    ({"ssl.client.auth": "none"}, "broker", None),
    ({"listeners": "PLAINTEXT://:9092"}, "broker", None),
    ({"listeners": "PLAINTEXT://:9093"}, "broker",
     ("listeners: cannot be changed while the broker runs; change the properties file or option "
      "and restart")),
    ({"log.retention.m": "1"}, "broker",
     "unknown property log.retention.m; did you mean log.retention.ms?"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "level", "sentence"), BROKER_CHANGES)
def test_a_change_of_broker_properties_is_validated(
    changes: dict[str, str], level: str, sentence: str | None
) -> None:
    cluster_wide = level == "cluster"
    refusal = refuse_broker_properties(load_settings(), changes, cluster_wide=cluster_wide)
    assert refusal == sentence


def test_append_and_subtract_require_a_list() -> None:
    append, subtract = AlterOperation.APPEND, AlterOperation.SUBTRACT
    assert refuse_topic_operation(append, "cleanup.policy") is None
    assert refuse_topic_operation(AlterOperation.SET, "retention.ms") is None
    assert [
        refuse_topic_operation(append, "retention.ms"),
        refuse_topic_operation(subtract, "foo"),
        refuse_broker_operation(append, "log.retention.ms"),
        refuse_broker_operation(subtract, "foo"),
        refuse_broker_operation(append, "log.cleanup.policy"),
    ] == [
        "Can't APPEND to key retention.ms because its type is not LIST.",
        "Can't SUBTRACT to key foo because its type is not LIST.",
        "Config value append is not allowed for config key: log.retention.ms",
        "Unknown config name: foo",
        None,
    ]


LISTS = [
    (AlterOperation.APPEND, "delete", "compact", "delete,compact"),
    (AlterOperation.APPEND, "delete,compact", "compact,delete", "delete,compact"),
    (AlterOperation.APPEND, "", "compact", "compact"),
    (AlterOperation.APPEND, None, "0:1", "0:1"),
    (AlterOperation.APPEND, "delete", "", "delete,"),
    (AlterOperation.SUBTRACT, "delete,compact", "delete", "compact"),
    (AlterOperation.SUBTRACT, "compact", "foo", "compact"),
    (AlterOperation.SUBTRACT, "compact", "compact", ""),
    (AlterOperation.SUBTRACT, "delete,delete", "delete", "delete"),
    (AlterOperation.SUBTRACT, " delete , compact ", "compact", " delete , compact "),
]


@pytest.mark.parametrize(("operation", "current", "value", "after"), LISTS)
def test_append_and_subtract_change_the_elements_of_a_list(
    operation: AlterOperation, current: str | None, value: str, after: str
) -> None:
    assert altered_list(operation, current, value) == after
