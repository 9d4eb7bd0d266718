"""DescribeConfigs returns the values and synonyms of Apache Kafka 4.3.1 for the same settings."""

from pathlib import Path

import pytest

from pykbroker.settings import (
    BROKER,
    ConfigSource,
    ConfigType,
    DescribedProperty,
    Layers,
    describe_broker,
    describe_cluster_default,
    describe_topic,
    load_settings,
    with_dynamic,
)
from pykbroker.settings.describe import describe_property

Row = tuple[str | None, str, list[tuple[str, str | None, str]]]

TOPIC_ROWS = [
    line.split("\t")
    for line in (Path(__file__).parent / "apache_4_3_topic_properties.tsv").read_text().splitlines()
    if not line.startswith("#")
]

TOPIC, BROKER_OWN = ConfigSource.DYNAMIC_TOPIC.name, ConfigSource.DYNAMIC_BROKER.name
CLUSTER, STATIC = ConfigSource.DYNAMIC_DEFAULT_BROKER.name, ConfigSource.STATIC_BROKER.name
DEFAULT = ConfigSource.DEFAULT.name


def _row(described: DescribedProperty) -> Row:
    synonyms = [(each.name, each.value, each.source.name) for each in described.synonyms]
    return described.value, described.source.name, synonyms


@pytest.mark.parametrize("expected", TOPIC_ROWS, ids=lambda row: row[0])
def test_a_topic_without_overrides_has_the_broker_defaults(expected: list[str]) -> None:
    name, kind, default, _, synonyms = expected
    (described,) = [row for row in describe_topic(load_settings(), {}) if row.name == name]
    names = [] if synonyms == "-" else synonyms.split(",")
    assert _row(described) == (default, DEFAULT, [(each, default, DEFAULT) for each in names])
    assert (described.type.name, described.is_read_only, described.is_sensitive) == (
        kind,
        False,
        False,
    )


def test_a_described_topic_has_the_properties_of_kafka() -> None:
    names = [row.name for row in describe_topic(load_settings(), {})]
    assert sorted(names) == [row[0] for row in TOPIC_ROWS]


STATIC_MINUTES = {"log.retention.minutes": "20000"}
BOTH = {"log.retention.ms": "7000000"}, {"log.retention.ms": "8000000"}

TOPIC_CASES: list[tuple[str, dict[str, str], dict[str, str], dict[str, str], Row]] = [
    ("cleanup.policy", {"cleanup.policy": " delete , compact "}, {}, {},
     ("delete,compact", TOPIC,
      [("cleanup.policy", "delete,compact", TOPIC), ("log.cleanup.policy", "delete", DEFAULT)])),
    ("cleanup.policy", {"cleanup.policy": "delete,delete"}, {}, {},
     ("delete", TOPIC,
      [("cleanup.policy", "delete", TOPIC), ("log.cleanup.policy", "delete", DEFAULT)])),
    ("preallocate", {"preallocate": "TRUE"}, {}, {},
     ("true", TOPIC, [("preallocate", "true", TOPIC), ("log.preallocate", "false", DEFAULT)])),
    ("min.cleanable.dirty.ratio", {"min.cleanable.dirty.ratio": "0.0001"}, {}, {},
     ("1.0E-4", TOPIC,
      [("min.cleanable.dirty.ratio", "1.0E-4", TOPIC),
       ("log.cleaner.min.cleanable.ratio", "0.5", DEFAULT)])),
    ("retention.ms", {"retention.ms": "1000000"}, STATIC_MINUTES, {},
     ("1000000", TOPIC, [("retention.ms", "1000000", TOPIC)])),
    # Kafka uses log.retention.minutes here, but does not list it as a synonym.
    ("retention.ms", {}, STATIC_MINUTES, {}, ("1200000000", DEFAULT, [])),
    ("retention.ms", {}, STATIC_MINUTES, BOTH[1],
     ("8000000", CLUSTER,
      [("log.retention.ms", "8000000", CLUSTER), ("log.retention.minutes", "20000", STATIC),
       ("log.retention.hours", "168", DEFAULT)])),
    ("segment.ms", {}, {}, {"log.roll.ms": "9000000"},
     ("9000000", CLUSTER,
      [("log.roll.ms", "9000000", CLUSTER), ("log.roll.hours", "168", DEFAULT)])),
    ("segment.bytes", {"segment.bytes": "+2000000"}, {}, {"log.segment.bytes": "3000000"},
     ("2000000", TOPIC,
      [("segment.bytes", "2000000", TOPIC), ("log.segment.bytes", "3000000", CLUSTER),
       ("log.segment.bytes", "1073741824", DEFAULT)])),
    ("internal.segment.bytes", {"internal.segment.bytes": "1000"}, {}, {},
     ("1000", TOPIC, [("internal.segment.bytes", "1000", TOPIC)])),
]  # fmt: skip


@pytest.mark.parametrize(("name", "overrides", "static", "cluster", "expected"), TOPIC_CASES)
def test_synonyms_of_a_topic_property_are_in_order_of_precedence(
    name: str,
    overrides: dict[str, str],
    static: dict[str, str],
    cluster: dict[str, str],
    expected: Row,
) -> None:
    settings = with_dynamic(load_settings(static), cluster_default=cluster)
    (described,) = [row for row in describe_topic(settings, overrides) if row.name == name]
    assert _row(described) == expected


BROKER_CASES: list[tuple[str, Row]] = [
    ("log.retention.ms",
     ("7000000", BROKER_OWN,
      [("log.retention.ms", "7000000", BROKER_OWN), ("log.retention.ms", "8000000", CLUSTER),
       ("log.retention.minutes", "20000", STATIC), ("log.retention.hours", "168", DEFAULT)])),
    ("log.retention.minutes",
     ("20000", STATIC,
      [("log.retention.minutes", "20000", STATIC), ("log.retention.hours", "168", DEFAULT)])),
    ("log.retention.hours", ("168", DEFAULT, [("log.retention.hours", "168", DEFAULT)])),
    ("log.roll.ms", (None, DEFAULT, [])),
    ("log.flush.interval.ms", (None, DEFAULT, [])),
    ("broker.rack", (None, DEFAULT, [])),
    ("num.partitions",
     ("3", STATIC, [("num.partitions", "3", STATIC), ("num.partitions", "1", DEFAULT)])),
    # Synonyms contain the text as configured, the value is formatted like in Java.
    ("log.cleaner.io.max.bytes.per.second",
     ("1.23456785E7", BROKER_OWN,
      [("log.cleaner.io.max.bytes.per.second", "12345678.5", BROKER_OWN),
       ("log.cleaner.io.max.bytes.per.second", "1.7976931348623157E308", DEFAULT)])),
]  # fmt: skip


@pytest.mark.parametrize(("name", "expected"), BROKER_CASES)
def test_synonyms_of_a_broker_property_are_in_order_of_precedence(name: str, expected: Row) -> None:
    settings = with_dynamic(
        load_settings({**STATIC_MINUTES, "num.partitions": "3"}),
        cluster_default=BOTH[1],
        this_broker={**BOTH[0], "log.cleaner.io.max.bytes.per.second": "12345678.5"},
    )
    (described,) = [row for row in describe_broker(settings) if row.name == name]
    assert _row(described) == expected


def test_static_properties_are_read_only() -> None:
    read_only = {row.name: row.is_read_only for row in describe_broker(load_settings())}
    assert read_only["num.partitions"]
    assert not read_only["log.retention.ms"]
    assert not read_only["listeners"]


def test_internal_properties_are_described_only_if_they_are_set() -> None:
    name = "log.initial.task.delay.ms"
    assert name not in {row.name for row in describe_broker(load_settings())}
    assert name in {row.name for row in describe_broker(load_settings({name: "5"}))}


def test_the_cluster_default_has_only_known_properties_that_are_set() -> None:
    settings = with_dynamic(load_settings(STATIC_MINUTES), cluster_default={**BOTH[1], "foo": "1"})
    (described,) = describe_cluster_default(settings)
    assert described.name == "log.retention.ms"
    assert _row(described) == ("8000000", CLUSTER, [("log.retention.ms", "8000000", CLUSTER)])


def test_a_password_is_not_described() -> None:
    password = BROKER["broker.rack"]._replace(type=ConfigType.PASSWORD)
    layers = Layers(static={"broker.rack": "secret"})
    described = describe_property(password, layers)
    assert _row(described) == (None, STATIC, [("broker.rack", None, STATIC)])
    assert described.is_sensitive
