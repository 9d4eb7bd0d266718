"""The table of properties agrees with Apache Kafka 4.3.1."""

from pathlib import Path

import pytest

from pykbroker.settings import BROKER, TOPIC, Property, UpdateMode
from pykbroker.settings.known_names import KNOWN_NAMES
from pykbroker.settings.property import shown
from pykbroker.settings.table import ALIASES

HERE = Path(__file__).parent

# Other defaults, because a node must start without properties; Kafka requires the first three.
OURS = {
    "node.id": "1",
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "log.dirs": "pykbroker-data",
}
OUR_OWN = {
    "disk.read.buffer.bytes",
    "group.consumer.max.regexes",
    "group.coordinator.members.max.bytes",
    "group.member.max.bytes",
    "socket.request.max.elements",
}
"""Properties that Apache Kafka does not have."""
# Dynamic only, so the static table of Apache Kafka does not contain them.
DYNAMIC_ONLY = {
    "leader.replication.throttled.rate",
    "follower.replication.throttled.rate",
    "replica.alter.log.dirs.io.max.bytes.per.second",
}
# Checked by Apache after the table, by the table here; and ways of saying the same.
CHECKED_ELSEWHERE = {
    "listeners",
    "log.dirs",
    "advertised.listeners",
    "log.retention.ms",
    "log.retention.minutes",
    "log.retention.hours",
    "log.roll.ms",
    "log.roll.jitter.ms",
    "max.connections.per.ip.overrides",
    "controller.quorum.voters",
    "controller.quorum.bootstrap.servers",
}


def _rows(file: str) -> list[list[str]]:
    lines = (HERE / file).read_text().splitlines()
    return [line.split("\t") for line in lines if not line.startswith("#")]


TOPIC_ROWS = _rows("apache_4_3_topic_properties.tsv")
BROKER_ROWS = _rows("apache_4_3_broker_properties.tsv")


@pytest.mark.parametrize("expected", TOPIC_ROWS, ids=lambda row: row[0])
def test_a_topic_property_has_the_definition_of_kafka(expected: list[str]) -> None:
    name, kind, default, allowed, _ = expected
    row = TOPIC[name]
    assert (row.type.name, shown(row.default)) == (kind, default)
    assert (row.check is None) == (allowed == "-")


@pytest.mark.parametrize(
    "expected", [row for row in BROKER_ROWS if row[0] in BROKER], ids=lambda row: row[0]
)
def test_a_broker_property_has_the_definition_of_kafka(
    expected: list[str],
) -> None:
    name, kind, default, allowed, importance, mode, internal = expected
    row = BROKER[name]
    assert row.type.name == kind
    text = shown(row.default)
    assert ("null" if text is None else text) == OURS.get(name, default)
    assert name in CHECKED_ELSEWHERE or (row.check is None) == (allowed == "-")
    assert (row.importance.value.upper(), row.update_mode.value) == (importance, mode)
    assert row.internal == (internal == "internal")


def test_each_property_of_kafka_is_known() -> None:
    apache = {row[0] for row in BROKER_ROWS}
    assert apache <= BROKER.keys() | KNOWN_NAMES | ALIASES.keys()
    assert (BROKER.keys() | KNOWN_NAMES | ALIASES.keys()) - apache == DYNAMIC_ONLY | OUR_OWN


def test_no_name_is_both_in_the_table_and_without_effect() -> None:
    assert not KNOWN_NAMES & BROKER.keys()


def test_the_topic_table_has_exactly_the_names_of_kafka() -> None:
    shown_names = {name for name, row in TOPIC.items() if not row.internal}
    assert shown_names == {row[0] for row in TOPIC_ROWS}


@pytest.mark.parametrize("row", [*BROKER.values(), *TOPIC.values()], ids=lambda row: row.name)
def test_a_property_is_consistent(row: Property) -> None:
    assert row.documentation.endswith(".")
    assert all(name in BROKER for name, _ in row.fallbacks)
    text = shown(row.default)
    if text is not None:
        assert row.read(text) == row.default


@pytest.mark.parametrize("row", [row for row in TOPIC.values() if row.fallbacks])
def test_the_broker_default_of_a_topic_property_is_dynamic(row: Property) -> None:
    broker_row = BROKER[row.fallbacks[0][0]]
    assert broker_row.type is row.type
    assert broker_row.update_mode is UpdateMode.CLUSTER_WIDE
