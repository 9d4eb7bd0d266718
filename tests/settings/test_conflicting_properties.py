"""Conflicting properties are rejected, with the messages of Apache Kafka 4.3.1 where it has any."""

import socket

import pytest

from pykbroker.coordination.assignors import ASSIGNORS as KNOWN
from pykbroker.settings import (
    InvalidSetting,
    Listener,
    broker_listeners,
    load_settings,
    refuse_broker_properties,
)
from pykbroker.settings.conflicts import ASSIGNORS
from pykbroker.wiring import consumer_group_settings, refuse_other_hosts

GROUPS = "group.consumer."
HEARTBEAT, SESSION = f"{GROUPS}heartbeat.interval.ms", f"{GROUPS}session.timeout.ms"
ASSIGNMENT = f"{GROUPS}assignment.interval.ms"

REFUSED = [
    ({"min.heartbeat.interval.ms": 20_000},
     (f"{GROUPS}max.heartbeat.interval.ms must be greater than or equal to "
     f"{GROUPS}min.heartbeat.interval.ms")),
    ({"heartbeat.interval.ms": 1_000},
     f"{HEARTBEAT} must be greater than or equal to {GROUPS}min.heartbeat.interval.ms"),
    ({"heartbeat.interval.ms": 20_000},
     f"{HEARTBEAT} must be less than or equal to {GROUPS}max.heartbeat.interval.ms"),
    ({"min.session.timeout.ms": 70_000},
     (f"{GROUPS}max.session.timeout.ms must be greater than or equal to "
     f"{GROUPS}min.session.timeout.ms")),
    ({"session.timeout.ms": 1_000},
     f"{SESSION} must be greater than or equal to {GROUPS}min.session.timeout.ms"),
    ({"session.timeout.ms": 70_000},
     f"{SESSION} must be less than or equal to {GROUPS}max.session.timeout.ms"),
    ({"min.session.timeout.ms": 5_000, "session.timeout.ms": 5_000},
     f"{HEARTBEAT} must be less than {SESSION}"),
    ({"min.assignment.interval.ms": 20_000},
     (f"{GROUPS}max.assignment.interval.ms must be greater than or equal to "
     f"{GROUPS}min.assignment.interval.ms")),
    ({"assignment.interval.ms": 20_000},
     f"{ASSIGNMENT} must be less than or equal to {GROUPS}max.assignment.interval.ms"),
    ({"min.assignment.interval.ms": 2_000},
     f"{ASSIGNMENT} must be greater than or equal to {GROUPS}min.assignment.interval.ms"),
    ({"migration.policy": "sideways"},
     (f"Invalid value sideways for configuration {GROUPS}migration.policy: String must be one of "
     "(case insensitive): DISABLED, DOWNGRADE, UPGRADE, BIDIRECTIONAL")),
    ({"assignors": ""},
     (f"Configuration '{GROUPS}assignors' must not be empty. "
     "Valid values include: any non-empty value")),
    ({"assignors": "range,random"},
     f"{GROUPS}assignors: unknown assignor random, use uniform, range"),
]  # fmt: skip


@pytest.mark.parametrize(("given", "sentence"), REFUSED)
def test_a_broker_does_not_start_with_conflicting_properties(
    given: dict[str, object], sentence: str
) -> None:
    with pytest.raises(InvalidSetting) as refusal:
        load_settings({GROUPS + name: str(value) for name, value in given.items()})
    assert str(refusal.value) == sentence


def test_a_dynamic_change_must_not_conflict_with_static_properties() -> None:
    settings = load_settings({f"{GROUPS}max.assignment.interval.ms": "3000"})
    assert refuse_broker_properties(settings, {ASSIGNMENT: "3000"}, cluster_wide=True) is None
    assert refuse_broker_properties(settings, {ASSIGNMENT: "3001"}, cluster_wide=True) is not None


@pytest.mark.parametrize("policy", ["upgrade", "UpGrade", "UPGRADE"])
def test_the_migration_policy_is_case_insensitive(policy: str) -> None:
    settings = consumer_group_settings(load_settings({f"{GROUPS}migration.policy": policy}))
    assert settings.migration_policy.allows_upgrade
    assert not settings.migration_policy.allows_downgrade


def test_each_known_assignor_is_accepted() -> None:
    assert set(ASSIGNORS) == set(KNOWN)


@pytest.mark.parametrize(
    "name", ["offsets.topic.segment.bytes", "transaction.state.log.segment.bytes"]
)
def test_a_segment_size_below_the_minimum_is_rejected_for_internal_topics(name: str) -> None:
    """Apache Kafka starts, and logs every few milliseconds that it cannot create the topic."""
    with pytest.raises(InvalidSetting) as refusal:
        load_settings({name: "16384"})
    expected = f"Invalid value 16384 for configuration {name}: Value must be at least 1048576"
    assert str(refusal.value) == expected


NAMED = "listener.security.protocol.map"


@pytest.mark.parametrize(
    ("given", "protocol"),
    [
        ({"listeners": "SSL://:9092"}, "SSL"),
        ({"listeners": "PLAINTEXT://:9092,sasl_ssl://:9093"}, "SASL_SSL"),
        ({"listeners": "SASL_PLAINTEXT://:9092", NAMED: "OTHER:PLAINTEXT"}, "SASL_PLAINTEXT"),
        ({"listeners": "A://:9092", NAMED: "PLAINTEXT:PLAINTEXT, a:ssl"}, "SSL"),
        ({NAMED: "PLAINTEXT:SSL"}, "SSL"),
        ({"listeners": "A://:1,CONTROLLER://:2", NAMED: "CONTROLLER:SSL"}, "SSL"),
        ({"advertised.listeners": "SASL_SSL://:9093"}, "SASL_SSL"),
        ({"inter.broker.listener.name": "A", NAMED: "A:SASL_PLAINTEXT"}, "SASL_PLAINTEXT"),
    ],
)
def test_an_encrypted_listener_is_rejected(given: dict[str, str], protocol: str) -> None:
    with pytest.raises(
        InvalidSetting, match=f"protocol {protocol} is not supported, use PLAINTEXT"
    ):
        load_settings(given)


def test_protocols_of_undeclared_listeners_are_ignored() -> None:
    load_settings({"listeners": "A://:9092", NAMED: "A:PLAINTEXT,SSL:SSL"})
    load_settings({"listeners": "SSL://:9092", NAMED: "SSL:PLAINTEXT"})


VOTERS, SERVERS = "controller.quorum.voters", "controller.quorum.bootstrap.servers"
TWO = "PLAINTEXT://:9092,CONTROLLER://:9093"


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({VOTERS: "1@a:1,2@b:1,3@c:1"}, VOTERS),
        ({VOTERS: "2@a:1"}, VOTERS),
        ({VOTERS: "a:9093"}, VOTERS),
        ({VOTERS: "1@a:1", "node.id": "2"}, VOTERS),
        ({SERVERS: "a:9093,b:9093"}, SERVERS),
        ({SERVERS: "localhost:9094", "listeners": TWO}, SERVERS),
        ({"process.roles": "broker"}, "process.roles"),
        ({"process.roles": "controller"}, "process.roles"),
        ({"process.roles": ""}, "process.roles"),
        ({"listeners": "CONTROLLER://:9093"}, "listeners"),
        ({"listeners": TWO, "controller.listener.names": "controller,plaintext"}, "listeners"),
        ({"metadata.log.dir": "elsewhere"}, "metadata.log.dir"),
    ],
)
def test_settings_of_a_larger_cluster_are_rejected(given: dict[str, str], named: str) -> None:
    with pytest.raises(InvalidSetting, match=rf"^{named}[:=]"):
        load_settings(given)


def test_a_node_can_be_its_own_controller() -> None:
    load_settings({VOTERS: "7@kafka:9093", "node.id": "7", "process.roles": "controller,broker"})
    load_settings({SERVERS: "kafka:9093", "listeners": TWO})
    load_settings({SERVERS: "kafka:9093"})
    load_settings({"metadata.log.dir": "data/", "log.dirs": "data"})


def test_controller_listeners_are_not_broker_listeners() -> None:
    settings = load_settings({"listeners": "A://:1, b://:2", "controller.listener.names": "B"})
    assert broker_listeners(settings) == (Listener("A", "", 1),)


@pytest.mark.parametrize(
    ("servers", "is_own"),
    [
        ("", True),
        ("localhost:9093", True),
        ("127.0.0.1:9093", True),
        (":9093", True),
        (f"{socket.gethostname()}:9093", True),
        ("192.0.2.1:9093", False),  # an address for documentation, which no host has
        ("name.invalid:9093", False),
        (f"{'a' * 300}:9093", False),
    ],
)
def test_a_controller_on_another_host_is_rejected(
    servers: str,
    is_own: bool,  # noqa: FBT001  # a column of the table
) -> None:
    refusal = refuse_other_hosts(load_settings({SERVERS: servers}))
    assert (refusal is None) == is_own
