import logging

import pytest

from pykbroker.settings import (
    BROKER,
    TOPIC,
    ConfigType,
    InvalidSetting,
    Settings,
    TopicSettings,
    load_settings,
    names_without_effect,
    resolve_topic,
    topic_names_without_effect,
    with_dynamic,
)
from pykbroker.settings.property import java_double

PYTHON_TYPES = {
    ConfigType.BOOLEAN: bool,
    ConfigType.STRING: str,
    ConfigType.INT: int,
    ConfigType.SHORT: int,
    ConfigType.LONG: int,
    ConfigType.DOUBLE: float,
    ConfigType.LIST: tuple[str, ...],
}


@pytest.mark.parametrize(
    ("attribute", "declared", "row"),
    [
        (name, declared, rows[name])
        for kind, table in ((Settings, BROKER), (TopicSettings, TOPIC))
        for rows in [{row.attribute: row for row in table.values()}]
        for name, declared in kind.__annotations__.items()
        if name not in {"layers", "topic_defaults"}
    ],
)
def test_an_attribute_has_the_type_of_its_row(
    attribute: str, declared: object, row: object
) -> None:
    assert row is not None
    kind = PYTHON_TYPES[row.type]  # type: ignore[attr-defined]  # rows come untyped from the table
    assert declared in {kind, kind | None}, attribute


def test_an_override_takes_precedence_over_the_file() -> None:
    settings = load_settings({"num.partitions": "3", "broker.rack": "a"}, {"num.partitions": "5"})
    assert (settings.num_partitions, settings.broker_rack) == (5, "a")


def test_elements_of_a_list_are_trimmed() -> None:
    settings = load_settings({"listeners": "PLAINTEXT://:9092, CONTROLLER://:9093"})
    assert settings.listeners == ("PLAINTEXT://:9092", "CONTROLLER://:9093")


REFUSED = [
    ({"socket.reqest.max.bytes": "1"},
     "unknown property socket.reqest.max.bytes; did you mean socket.request.max.bytes?"),
    ({"qqqqqqqqq": "1"}, "unknown property qqqqqqqqq"),
    ({"retention.ms": "1"},
     "retention.ms is a topic property; use log.retention.ms for the broker default"),
    ({"num.partitions": "many"},
     "Invalid value many for configuration num.partitions: Not a number of type INT"),
    ({"num.partitions": "0"},
     "Invalid value 0 for configuration num.partitions: Value must be at least 1"),
    ({"process.roles": "broker,cook"},
     ("Invalid value cook for configuration process.roles: "
      "String must be one of: broker, controller")),
    ({"max.connections.per.ip.overrides": "127.0.0.1:x"},
     ("Invalid value 127.0.0.1:x for configuration max.connections.per.ip.overrides: "
      "Entries must have the form host:connections")),
    ({"listeners": "PLAINTEXT:/:9092"},
     ("Invalid value PLAINTEXT:/:9092 for configuration listeners: "
      "PLAINTEXT:/:9092 does not have the form NAME://host:port")),
    ({"listeners": "A://:1,a://:2"},
     ("Invalid value A://:1,a://:2 for configuration listeners: "
      "Each listener must have a different name")),
    ({"group.max.size": "0"},
     "Invalid value 0 for configuration group.max.size: Value must be at least 1"),
]  # fmt: skip


@pytest.mark.parametrize(("properties", "sentence"), REFUSED)
def test_an_invalid_property_is_rejected_with_a_message(
    properties: dict[str, str], sentence: str
) -> None:
    with pytest.raises(InvalidSetting) as refusal:
        load_settings(properties)
    assert str(refusal.value) == sentence


RETENTIONS = [
    ({}, 168 * 3_600_000),
    ({"log.retention.hours": "1"}, 3_600_000),
    ({"log.retention.hours": "1", "log.retention.minutes": "2"}, 120_000),
    ({"log.retention.hours": "1", "log.retention.minutes": "2", "log.retention.ms": "3"}, 3),
    ({"log.retention.hours": "-1"}, -1),
    ({"log.retention.minutes": "-1"}, -1),
    ({"log.retention.ms": "-1"}, -1),
]


@pytest.mark.parametrize(("properties", "expected"), RETENTIONS)
def test_the_smallest_unit_that_is_set_takes_precedence(
    properties: dict[str, str], expected: int
) -> None:
    assert load_settings(properties).topic_defaults.retention_ms == expected


def test_log_flush_interval_ms_defaults_to_the_scheduler_interval() -> None:
    settings = load_settings({"log.flush.scheduler.interval.ms": "500"})
    assert settings.topic_defaults.flush_ms == 500


@pytest.mark.parametrize(
    ("properties", "node_id", "log_dirs"),
    [
        ({"broker.id": "7", "log.dir": "a"}, 7, ("a",)),
        ({"broker.id": "7", "node.id": "8", "log.dir": "a", "log.dirs": "b,c"}, 8, ("b", "c")),
    ],
)
def test_an_alias_is_used_if_the_property_is_not_set(
    properties: dict[str, str], node_id: int, log_dirs: tuple[str, ...]
) -> None:
    settings = load_settings(properties)
    assert (settings.node_id, settings.log_dirs) == (node_id, log_dirs)


def test_one_warning_names_all_properties_without_effect(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        load_settings(
            {"ssl.keystore.type": "JKS", "num.partitions": "1", "num.network.threads": "4"}
        )
    (line,) = caplog.messages
    assert line == (
        "configuration: properties without effect on this broker: "
        "num.network.threads, ssl.keystore.type"
    )


def test_a_property_has_an_effect_if_it_or_its_dependents_have_a_field() -> None:
    assert names_without_effect(["log.retention.hours", "message.max.bytes", "node.id"]) == ()
    assert names_without_effect(["quota.window.num"]) == ("quota.window.num",)
    assert topic_names_without_effect(["retention.ms", "local.retention.ms"]) == (
        "local.retention.ms",
    )


def test_a_topic_override_replaces_the_broker_default() -> None:
    settings = load_settings({"log.segment.bytes": "2000000", "min.insync.replicas": "2"})
    topic = resolve_topic(settings, {"retention.ms": " 5 ", "cleanup.policy": "compact,delete"})
    assert topic.retention_ms == 5
    assert topic.cleanup_policy == ("compact", "delete")
    assert (topic.segment_bytes, topic.min_insync_replicas) == (2_000_000, 2)


def test_topics_without_overrides_share_one_settings_object() -> None:
    settings = load_settings()
    assert resolve_topic(settings, {}) is settings.topic_defaults


def test_internal_segment_bytes_has_no_lower_bound() -> None:
    topic = resolve_topic(load_settings(), {"internal.segment.bytes": "1000"})
    assert topic.segment_bytes == 1000


def test_an_unknown_stored_override_is_ignored() -> None:
    settings = load_settings()
    overrides = {"message.format.version": "3.0", "remote.storage.enable": "false"}
    assert resolve_topic(settings, overrides) == settings.topic_defaults


def test_precedence_is_this_broker_then_cluster_default_then_file() -> None:
    static = load_settings({"message.max.bytes": "1", "fetch.max.bytes": "2000"})
    cluster = with_dynamic(static, cluster_default={"message.max.bytes": "2"})
    own = with_dynamic(
        static, cluster_default={"message.max.bytes": "2"}, this_broker={"message.max.bytes": "3"}
    )
    values = [each.topic_defaults.max_message_bytes for each in (static, cluster, own)]
    assert values == [1, 2, 3]
    assert own.fetch_max_bytes == 2000


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.5, "0.5"),
        (1.0, "1.0"),
        (0.0, "0.0"),
        (0.001, "0.001"),
        (0.0001, "1.0E-4"),
        (-0.00012, "-1.2E-4"),
        (9999999.0, "9999999.0"),
        (10000000.0, "1.0E7"),
        (12345678.5, "1.23456785E7"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (float("nan"), "NaN"),
        (float("-inf"), "-Infinity"),
    ],
)
def test_a_number_is_formatted_like_in_java(number: float, text: str) -> None:
    assert java_double(number) == text
