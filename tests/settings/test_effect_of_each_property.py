"""Each property has an effect, is rejected as not supported, or is named in a warning."""

import ast
from functools import cache
from pathlib import Path

import pytest

import pykbroker
from pykbroker.settings import (
    BROKER,
    GROUP,
    TOPIC,
    InvalidSetting,
    dynamic_row,
    load_settings,
    refuse_broker_properties,
    refuse_topic_overrides,
    resolve_group,
    topic_names_without_effect,
    with_dynamic,
)
from pykbroker.settings.conflicts import _BOUNDS
from pykbroker.settings.load import NAMES_WITH_EFFECT
from pykbroker.settings.property import shown
from pykbroker.settings.table import ALIASES
from pykbroker.settings.values import Settings, TopicSettings

HERE = Path(__file__).parent
ROWS = [
    line.split("\t")
    for line in (HERE / "apache_4_3_broker_properties.tsv").read_text().splitlines()
    if not line.startswith("#")
]

# Values other than the default for properties whose type does not imply one.
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
    "process.roles": "controller",
}
SAMPLES = {
    "CLASS": ("a.B",),
    "LIST": ("x",),
    "PASSWORD": ("secret",),
    "STRING": ("x",),
    "DOUBLE": ("0.25",),
}

UNSUPPORTED_PREFIXES = ("sasl.", "ssl.")
UNSUPPORTED = {
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
SASL_TUNING = ("backoff", "jitter", ".seconds", "relogin", "refresh", "renew", ".timeout.", ".size")


def is_unsupported(name: str) -> bool:
    is_tuning = name.startswith("sasl.") and any(it in name for it in SASL_TUNING)
    return name in UNSUPPORTED or (name.startswith(UNSUPPORTED_PREFIXES) and not is_tuning)


def values_other_than_default(name: str, kind: str, default: str, allowed: str) -> tuple[str, ...]:
    """Returns candidates; tests use the first valid one."""
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


# Rooms that receive settings classes of their own, whose fields can have the same names.
OTHER_SETTINGS = {"coordination", "coordinators"}


@cache
def fields_read() -> frozenset[str]:
    """Fields of `Settings` and `TopicSettings` that product code reads: `….settings.FIELD`."""
    root = Path(pykbroker.__file__).parent
    paths = (it for it in root.rglob("*.py") if not OTHER_SETTINGS & {*it.relative_to(root).parts})
    nodes = (node for path in paths for node in ast.walk(ast.parse(path.read_text())))
    by_attribute = {
        node.attr
        for node in nodes
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)
        if ast.unparse(node.value).endswith("settings")
    }
    by_name = {name.replace(".", "_") for bounds in _BOUNDS for name in bounds}
    return frozenset(by_attribute | by_name)


def effect_of(name: str, values: tuple[str, ...], caplog: pytest.LogCaptureFixture) -> str:
    for value in values:
        caplog.clear()
        try:
            load_settings({name: value})
        except InvalidSetting as refusal:
            if "not supported" in str(refusal):
                return "rejected"
        else:
            return "warning" if any(name in it for it in caplog.messages) else "read"
    raise AssertionError(f"no valid value for {name}: {values}")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_a_broker_property_of_kafka_is_read_rejected_or_warned_of(
    row: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    name, kind, default, allowed, *_ = row
    effect = effect_of(name, values_other_than_default(name, kind, default, allowed), caplog)
    if is_unsupported(name):
        assert effect == "rejected"
    else:
        assert effect == ("read" if name in NAMES_WITH_EFFECT | ALIASES.keys() else "warning")


@pytest.mark.parametrize("field", sorted(Settings.names() | TopicSettings.names()))
def test_each_field_of_the_settings_is_read_by_product_code(field: str) -> None:
    assert field in fields_read()


def test_a_broker_property_with_effect_has_a_field_or_is_a_fallback_of_one() -> None:
    fields = Settings.names() | TopicSettings.names()
    rows = [it for it in (*BROKER.values(), *TOPIC.values()) if it.attribute in fields]
    names = {it.name for it in rows}
    names |= {name for row in rows for name, _ in row.fallbacks}
    names |= {name for it in names & BROKER.keys() for name, _ in BROKER[it].fallbacks}
    assert names >= NAMES_WITH_EFFECT


@pytest.mark.parametrize("name", sorted(TOPIC))
def test_a_topic_property_is_read_rejected_or_warned_of(name: str) -> None:
    # A broker logs a warning with `topic_names_without_effect` (tests/test_dynamic_properties.py).
    has_field = name.replace(".", "_") in TopicSettings.names()
    replaces_field = name == "internal.segment.bytes"
    assert (has_field or replaces_field) != (name in topic_names_without_effect([name]))


def test_tiered_storage_of_a_topic_is_rejected() -> None:
    refusal = refuse_topic_overrides(load_settings(), {"remote.storage.enable": "true"})
    assert refusal is not None
    assert "Tiered Storage" in refusal


@pytest.mark.parametrize("name", sorted(GROUP))
def test_a_group_property_changes_the_intervals_of_the_group(name: str) -> None:
    maximum = f"group.{name.replace('consumer.', 'consumer.max.')}"
    settings = load_settings({maximum: "90000", "group.consumer.max.session.timeout.ms": "90001"})
    changed = str(BROKER[maximum].default)
    assert resolve_group(settings, {name: changed}) != resolve_group(settings, {})


@pytest.mark.parametrize(
    "row", [it for it in ROWS if it[2] not in ("none", "null")], ids=lambda row: row[0]
)
def test_the_default_of_apache_kafka_is_accepted(row: list[str]) -> None:
    name, _, default, *_ = row
    if name not in ALIASES:
        load_settings({name: default})


DYNAMIC = [row for row in ROWS if row[5] != "read-only"]


@pytest.mark.parametrize("row", DYNAMIC, ids=lambda row: row[0])
def test_a_dynamic_property_of_kafka_can_be_changed_unless_it_is_unsupported(
    row: list[str],
) -> None:
    name, kind, default, allowed, _, mode, _ = row
    cluster_wide = mode == "cluster-wide"
    values = values_other_than_default(name, kind, default, allowed)
    refusals = [
        refuse_broker_properties(load_settings(), {name: value}, cluster_wide=cluster_wide)
        for value in values
    ]
    if is_unsupported(name):
        assert all(it and "not supported" in it for it in refusals)
    elif name == "listeners":
        assert all(it and "cannot be changed while the broker runs" in it for it in refusals)
    else:
        assert None in refusals


@pytest.mark.parametrize("row", DYNAMIC, ids=lambda row: row[0])
def test_a_dynamic_property_has_the_type_default_and_update_mode_of_kafka(
    row: list[str],
) -> None:
    name, kind, default, allowed, _, mode, _ = row
    ours = dynamic_row(name)
    assert ours is not None
    assert (ours.type.name, ours.update_mode.value) == (kind, mode)
    if kind != "CLASS":
        assert (shown(ours.default) or "") == ("" if default == "null" else default)
    assert name in BROKER or (ours.check is None) == (allowed == "-")


def test_a_read_only_property_cannot_be_changed_dynamically() -> None:
    for name, *_, mode, _ in ROWS:
        if mode == "read-only" and not is_unsupported(name) and name not in ALIASES:
            refusal = refuse_broker_properties(load_settings(), {name: "1"}, cluster_wide=False)
            assert refusal == f"Cannot update these configs dynamically: [{name}]"


LISTENER_PROPERTIES = [
    ("listener.name.a.ssl.keystore.location", True),
    ("listener.name.a.plain.sasl.jaas.config", True),
    ("listener.name.a.sasl.enabled.mechanisms", True),
    ("listener.name.a.sasl.login.refresh.min.period.seconds", False),
    ("listener.name.a.max.connections", False),
    ("config.providers.file.class", True),
    ("rsm.config.key", False),
]


@pytest.mark.parametrize(("name", "is_rejected"), LISTENER_PROPERTIES)
def test_a_property_of_one_listener_is_rejected_like_that_of_all_listeners(
    name: str,
    is_rejected: bool,  # noqa: FBT001  # a column of the table
) -> None:
    changed = refuse_broker_properties(load_settings(), {name: "5"}, cluster_wide=False)
    assert bool(changed) == is_rejected
    if is_rejected:
        with pytest.raises(InvalidSetting, match="not supported"):
            load_settings({name: "5"})
        with pytest.raises(InvalidSetting, match="not supported"):
            with_dynamic(load_settings(), this_broker={name: "5"})


def test_one_message_names_all_unsupported_properties() -> None:
    given = {"ssl.keystore.location": "a", "authorizer.class.name": "b", "ssl.client.auth": "none"}
    with pytest.raises(InvalidSetting) as refusal:
        load_settings(given)
    assert str(refusal.value) == (
        "authorizer.class.name, ssl.keystore.location: authorization and TLS are not supported; "
        "remove these properties"
    )
