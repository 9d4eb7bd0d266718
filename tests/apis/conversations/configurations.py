"""DescribeConfigs, AlterConfigs and IncrementalAlterConfigs of topics and brokers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker_protocol.messages import alter_configs, incremental_alter_configs
from pykbroker_protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from tests.apis.conversations.catalog import conversation

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.apis.transcript import Transcript

TOPIC, BROKER = 2, 4
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3


def described(
    name: str, kind: int = TOPIC, keys: Sequence[str] | None = None, *, whole: bool = True
) -> DescribeConfigsRequest:
    resource = DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=keys
    )
    return DescribeConfigsRequest(
        resources=[resource], include_synonyms=whole, include_documentation=whole
    )


def replaced(
    name: str, values: Mapping[str, str | None], kind: int = TOPIC, *, validate_only: bool = False
) -> alter_configs.AlterConfigsRequest:
    return alter_configs.AlterConfigsRequest(
        resources=[
            alter_configs.AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[
                    alter_configs.AlterableConfig(name=key, value=value)
                    for key, value in values.items()
                ],
            )
        ],
        validate_only=validate_only,
    )


def altered(
    name: str,
    *operations: tuple[str, int, str | None],
    kind: int = TOPIC,
    validate_only: bool = False,
) -> incremental_alter_configs.IncrementalAlterConfigsRequest:
    return incremental_alter_configs.IncrementalAlterConfigsRequest(
        resources=[
            incremental_alter_configs.AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[
                    incremental_alter_configs.AlterableConfig(
                        name=key, config_operation=operation, value=value
                    )
                    for key, operation, value in operations
                ],
            )
        ],
        validate_only=validate_only,
    )


def overrides(broker: Transcript, name: str, kind: int = TOPIC) -> None:
    """Returns the values that were set for the resource."""
    broker.settle()
    response = broker.quietly(described(name, kind), 4)
    rows = broker.plain(response)["results"][0]["configs"]
    broker.note("is now", [it for it in rows if it.get("config_source") in (1, 2, 3)])


@conversation
def all_properties_of_a_topic(broker: Transcript) -> None:
    plain = broker.topic("plain")
    own = broker.topic("own", configs={"retention.ms": "1000", "cleanup.policy": "compact"})
    for topic in (plain, own):
        for version in range(1, 5):
            broker.ask(described(topic.name, whole=version >= 3), version)
        broker.ask(described(topic.name, keys=["retention.ms", "nonsense"]), 4)
        broker.ask(described(topic.name, keys=[]), 4, note="no keys")


@conversation
def unknown_resources(broker: Transcript) -> None:
    for kind, name in (
        (TOPIC, "no-such-topic"),
        (TOPIC, ""),
        (TOPIC, "a b"),
        (BROKER, "99"),
        (BROKER, "x"),
        (0, "x"),
        (3, "x"),
        (100, "x"),
        (-1, "x"),
    ):
        for version in (1, 4):
            request = described(name, kind, whole=version >= 3)
            broker.ask(request, version, note=f"{kind} {name!r}")


@conversation
def properties_are_set_and_deleted(broker: Transcript) -> None:
    name = broker.topic().name
    cases: dict[str, list[tuple[str, int, str | None]]] = {
        "set": [("retention.ms", SET, "5000")],
        "set two": [("retention.ms", SET, "6000"), ("segment.bytes", SET, "2000000")],
        "delete": [("retention.ms", DELETE, None)],
        "delete what is not set": [("retention.ms", DELETE, None)],
        "delete with a value": [("segment.bytes", DELETE, "7")],
        "append to a list": [("cleanup.policy", APPEND, "compact")],
        "append what is in it": [("cleanup.policy", APPEND, "compact")],
        "subtract": [("cleanup.policy", SUBTRACT, "delete")],
        "subtract what is not in it": [("cleanup.policy", SUBTRACT, "delete")],
        "subtract the last": [("cleanup.policy", SUBTRACT, "compact")],
        "append to a number": [("retention.ms", APPEND, "5")],
        "subtract from a number": [("retention.ms", SUBTRACT, "5")],
        "null": [("retention.ms", SET, None)],
        "empty": [("retention.ms", SET, "")],
        "not a number": [("retention.ms", SET, "x")],
        "out of range": [("segment.bytes", SET, "0")],
        "unknown": [("nonsense", SET, "1")],
        "delete unknown": [("nonsense", DELETE, None)],
        "one good, one bad": [("retention.ms", SET, "1"), ("segment.bytes", SET, "x")],
        "the same twice": [("retention.ms", SET, "1"), ("retention.ms", SET, "2")],
        "set and delete": [("retention.ms", SET, "1"), ("retention.ms", DELETE, None)],
        "nothing": [],
    }
    for note, operations in cases.items():
        broker.ask(altered(name, *operations, validate_only=True), 0, note=note)
        broker.ask(altered(name, *operations), 1, note=note)
        overrides(broker, name)


@conversation
def unknown_operations(broker: Transcript) -> None:
    name = broker.topic().name
    with broker.known_difference("Unknown operation on a property"):
        broker.ask(altered(name, ("retention.ms", 9, "5")), 1)
    overrides(broker, name)


@conversation
def properties_are_replaced_together(broker: Transcript) -> None:
    name = broker.topic(configs={"retention.ms": "1000"}).name
    cases: dict[str, dict[str, str | None]] = {
        "one": {"segment.bytes": "2000000"},
        "another": {"retention.ms": "7000"},
        "null": {"retention.ms": None},
        "bad": {"retention.ms": "x"},
        "unknown": {"nonsense": "1"},
        "none": {},
    }
    for note, values in cases.items():
        broker.ask(replaced(name, values, validate_only=True), 0, note=note)
        broker.ask(replaced(name, values), 2, note=note)
        overrides(broker, name)


@conversation
def resources_that_cannot_be_altered(broker: Transcript) -> None:
    one = ("retention.ms", SET, "1")
    for kind, name in ((TOPIC, "no-such"), (TOPIC, ""), (BROKER, "99"), (BROKER, "x"), (0, "x")):
        broker.ask(altered(name, one, kind=kind), 1, note=f"{kind} {name!r}")
        broker.ask(replaced(name, {"retention.ms": "1"}, kind), 2, note=f"{kind} {name!r}")
    topic = broker.topic()
    twice = altered(topic.name, one)
    broker.ask(twice.replace(resources=[*twice.resources, *twice.resources]), 1, note="twice")
    broker.ask(altered(topic.name).replace(resources=()), 1, note="none")


@conversation
def properties_of_brokers_are_altered(broker: Transcript) -> None:
    for name in ("1", ""):
        for note, operation in {
            "dynamic": ("log.retention.ms", SET, "700000000"),
            "for all brokers": ("message.max.bytes", SET, "1048589"),
            "read only": ("log.dirs", SET, "elsewhere"),
            "read only too": ("node.id", SET, "7"),
            "bad": ("log.retention.ms", SET, "x"),
            "deleted": ("log.retention.ms", DELETE, None),
            "deleted too": ("message.max.bytes", DELETE, None),
        }.items():
            broker.ask(altered(name, operation, kind=BROKER), 1, note=f"{name!r} {note}")
            broker.settle()
            broker.ask(described(name, BROKER, ["log.retention.ms", "message.max.bytes"]), 4)


WITHOUT_EFFECT = (
    ("background.threads", "12"),
    ("follower.fetch.last.tiered.offset.enable", "true"),
    ("log.cleaner.io.buffer.size", "600000"),
    ("num.io.threads", "9"),
    ("remote.fetch.max.wait.ms", "700"),
    ("sasl.kerberos.min.time.before.relogin", "61000"),
    ("sasl.login.refresh.window.factor", "0.7"),
    ("ssl.client.auth", "none"),
)


@conversation
def broker_properties_without_effect_are_stored(broker: Transcript) -> None:
    for name in ("1", ""):
        for key, value in WITHOUT_EFFECT:
            for given in (value, "nonsense"):
                broker.ask(altered(name, (key, SET, given), kind=BROKER), 1, note=f"{key} {given}")
        broker.settle()
        broker.ask(described(name, BROKER, [key for key, _ in WITHOUT_EFFECT]), 4)
        several = (("num.io.threads", SET, "7"), ("log.retention.ms", SET, "800000000"))
        broker.ask(altered(name, *several, kind=BROKER), 1, note="several at once")
        broker.settle()
        broker.ask(described(name, BROKER, [key for key, _, _ in several]), 4)
        for key in ("log.retention.ms", *(key for key, _ in WITHOUT_EFFECT)):
            broker.ask(altered(name, (key, DELETE, None), kind=BROKER), 1, note=f"{key} deleted")
        broker.settle()


@conversation
def unsupported_broker_properties_are_rejected(broker: Transcript) -> None:
    with broker.known_difference("Dynamic broker properties"):
        for key, value in (("nonsense", "1"), ("ssl.provider", "x"), ("sasl.jaas.config", "x")):
            broker.ask(altered("1", (key, SET, value), kind=BROKER), 1, note=key)
    for key in ("nonsense", "ssl.provider", "sasl.jaas.config"):
        broker.quietly(altered("1", (key, DELETE, None), kind=BROKER), 1)


@conversation
def broker_defaults_of_topic_properties(broker: Transcript) -> None:
    topic = broker.topic()
    broker.quietly(altered("", ("log.retention.ms", SET, "800000000"), kind=BROKER), 1)
    broker.settle()
    broker.ask(described(topic.name, keys=["retention.ms"]), 4, note="set for all brokers")
    broker.quietly(altered("1", ("log.retention.ms", SET, "900000000"), kind=BROKER), 1)
    broker.settle()
    broker.ask(described(topic.name, keys=["retention.ms"]), 4, note="set for this broker")
    broker.quietly(altered("1", ("log.retention.ms", DELETE, None), kind=BROKER), 1)
    broker.quietly(altered("", ("log.retention.ms", DELETE, None), kind=BROKER), 1)
    broker.settle()
    broker.ask(described(topic.name, keys=["retention.ms"]), 4, note="set nowhere")
