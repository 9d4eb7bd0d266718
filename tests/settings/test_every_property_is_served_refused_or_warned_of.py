"""Each property of Apache Kafka has an effect, is refused, or is named in a warning."""

import ast
from functools import cache
from pathlib import Path

import pytest

import pykbroker
from pykbroker.settings import (
    BROKER,
    TOPIC,
    InvalidSetting,
    dynamic_row,
    load_settings,
    refuse_broker_properties,
    with_dynamic,
)
from pykbroker.settings.conflicts import _BOUNDS
from pykbroker.settings.load import NAMES_WITH_EFFECT
from pykbroker.settings.property import shown
from pykbroker.settings.table import ALIASES

HERE = Path(__file__).parent
ROWS = [
    line.split("\t")
    for line in (HERE / "apache_4_3_broker_properties.tsv").read_text().splitlines()
    if not line.startswith("#")
]

# What asks for something, where the type does not say it.
VALUES = {
    "advertised.listeners": "PLAINTEXT://a:1",
    "controller.listener.names": "C",
    "controller.quorum.bootstrap.servers": "a:1,b:2",
    "controller.quorum.voters": "1@a:1,2@b:1",
    "group.consumer.assignors": "range",
    "inter.broker.listener.name": "SSL",
    "listener.security.protocol.map": "PLAINTEXT:SSL",
    "listeners": "PLAINTEXT://127.0.0.1:1",
    "max.connections.per.ip.overrides": "127.0.0.1:5",
    "process.roles": "broker",
}
SAMPLES = {
    "CLASS": ("a.B",),
    "LIST": ("x",),
    "PASSWORD": ("secret",),
    "STRING": ("x",),
    "DOUBLE": ("0.25",),
}

BEGINNINGS = ("sasl.", "ssl.")
REFUSED = {
    "alter.config.policy.class.name",
    "authorizer.class.name",
    "client.quota.callback.class",
    "config.providers",
    "connections.max.reauth.ms",
    "controller.quorum.bootstrap.servers",
    "controller.quorum.voters",
    "create.topic.policy.class.name",
    "delegation.token.secret.key",
    "inter.broker.listener.name",
    "listener.security.protocol.map",
    "metadata.log.dir",
    "principal.builder.class",
    "process.roles",
    "remote.log.storage.system.enable",
    "security.inter.broker.protocol",
    "security.providers",
}
TUNES_SASL = ("backoff", "jitter", ".seconds", "relogin", "refresh", "renew", ".timeout.", ".size")


def is_refused(name: str) -> bool:
    tunes = name.startswith("sasl.") and any(it in name for it in TUNES_SASL)
    return name in REFUSED or (name.startswith(BEGINNINGS) and not tunes)


def candidates(name: str, kind: str, default: str, allowed: str) -> tuple[str, ...]:
    """Values that ask for something; the first one that is valid counts."""
    if name in VALUES:
        return (VALUES[name],)
    if allowed.startswith(("[", "(")) and "..." not in allowed and kind in ("STRING", "LIST"):
        names = allowed[allowed.index("[") + 1 : -1].split(", ")
        return tuple(it for it in names if it not in default.split(","))
    if kind == "BOOLEAN":
        return ("false" if default == "true" else "true",)
    if kind in SAMPLES:
        return SAMPLES[kind]
    number = int(default) if default.lstrip("-").isdecimal() else 100
    return tuple(str(it) for it in (number + 1, number - 1, number // 2))


@cache
def attributes_read() -> frozenset[str]:
    root = Path(pykbroker.__file__).parent
    sources = (path.read_text() for path in root.rglob("*.py") if path.name != "values.py")
    trees = (ast.parse(source) for source in sources if "settings" in source)
    nodes = (node for tree in trees for node in ast.walk(tree))
    return frozenset(node.attr for node in nodes if isinstance(node, ast.Attribute))


def fate_of(name: str, values: tuple[str, ...], caplog: pytest.LogCaptureFixture) -> str:
    for value in values:
        caplog.clear()
        try:
            load_settings({name: value})
        except InvalidSetting as refusal:
            if "not supported" in str(refusal):
                return "refused"
        else:
            return "warned of" if any(name in it for it in caplog.messages) else "served"
    raise AssertionError(f"no valid value for {name}: {values}")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_a_property_is_served_refused_or_warned_of(
    row: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    name, kind, default, allowed, *_ = row
    fate = fate_of(name, candidates(name, kind, default, allowed), caplog)
    assert (fate == "refused") == is_refused(name)
    assert (fate == "served") == (name in NAMES_WITH_EFFECT | ALIASES.keys() and fate != "refused")


@pytest.mark.parametrize(
    "row", [it for it in ROWS if it[2] not in ("none", "null")], ids=lambda row: row[0]
)
def test_a_default_of_apache_asks_for_nothing(row: list[str]) -> None:
    name, _, default, *_ = row
    if name not in ALIASES:
        load_settings({name: default})


@pytest.mark.parametrize("name", sorted(NAMES_WITH_EFFECT))
def test_a_property_with_effect_is_read_by_the_broker(name: str) -> None:
    fed = [it for it in BROKER.values() if name in {other for other, _ in it.fallbacks}]
    names = {name, *(it.name for it in fed)}
    of_topics = [it for it in TOPIC.values() if names & {other for other, _ in it.fallbacks}]
    compared = {it.replace(".", "_") for bounds in _BOUNDS for it in bounds}
    attributes = {name.replace(".", "_"), *(it.attribute for it in (*fed, *of_topics))}
    assert attributes & (attributes_read() | compared)


DYNAMIC = [row for row in ROWS if row[5] != "read-only"]


@pytest.mark.parametrize("row", DYNAMIC, ids=lambda row: row[0])
def test_a_property_that_apache_changes_at_run_time_is_taken_unless_it_protects(
    row: list[str],
) -> None:
    name, kind, default, allowed, _, mode, _ = row
    cluster_wide = mode == "cluster-wide"
    values = candidates(name, kind, default, allowed)
    refusals = [
        refuse_broker_properties(load_settings(), {name: value}, cluster_wide=cluster_wide)
        for value in values
    ]
    if is_refused(name):
        assert all(it and "not supported" in it for it in refusals)
    elif name == "listeners":
        assert all(it and "cannot be changed while the broker runs" in it for it in refusals)
    else:
        assert None in refusals


@pytest.mark.parametrize("row", DYNAMIC, ids=lambda row: row[0])
def test_a_property_without_effect_has_apaches_type_default_and_update_mode(
    row: list[str],
) -> None:
    name, kind, default, allowed, _, mode, _ = row
    ours = dynamic_row(name)
    assert ours is not None
    assert (ours.type.name, ours.update_mode.value) == (kind, mode)
    if kind != "CLASS":
        assert (shown(ours.default) or "") == ("" if default == "null" else default)
    assert name in BROKER or (ours.check is None) == (allowed == "-")


def test_what_cannot_be_changed_at_run_time_says_so() -> None:
    for name, *_, mode, _ in ROWS:
        if mode == "read-only" and not is_refused(name) and name not in ALIASES:
            refusal = refuse_broker_properties(load_settings(), {name: "1"}, cluster_wide=False)
            assert refusal == f"Cannot update these configs dynamically: [{name}]"


OF_A_LISTENER = [
    ("listener.name.a.ssl.keystore.location", True),
    ("listener.name.a.plain.sasl.jaas.config", True),
    ("listener.name.a.sasl.enabled.mechanisms", True),
    ("listener.name.a.sasl.login.refresh.min.period.seconds", False),
    ("listener.name.a.max.connections", False),
    ("config.providers.file.class", True),
    ("rsm.config.key", False),
]


@pytest.mark.parametrize(("name", "is_refused"), OF_A_LISTENER)
def test_a_property_of_one_listener_is_judged_like_that_of_all(
    name: str,
    is_refused: bool,  # noqa: FBT001  # a column of the table
) -> None:
    changed = refuse_broker_properties(load_settings(), {name: "5"}, cluster_wide=False)
    assert bool(changed) == is_refused
    if is_refused:
        with pytest.raises(InvalidSetting, match="not supported"):
            load_settings({name: "5"})
        with pytest.raises(InvalidSetting, match="not supported"):
            with_dynamic(load_settings(), this_broker={name: "5"})


def test_all_protections_that_are_asked_for_are_named_in_one_sentence() -> None:
    given = {"ssl.keystore.location": "a", "authorizer.class.name": "b", "ssl.client.auth": "none"}
    with pytest.raises(InvalidSetting) as refusal:
        load_settings(given)
    assert str(refusal.value) == (
        "authorizer.class.name, ssl.keystore.location: authorization and TLS are not supported; "
        "remove them to run without"
    )
