"""Properties as Java's clients and Spark name them, said to librdkafka."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Final

from confluent_kafka import KafkaException, Producer

from pykbroker.pipeline.topic_target import CannotPublish

if TYPE_CHECKING:
    from collections.abc import Mapping

JAAS: Final = "sasl.jaas.config"
JAAS_FIELD: Final = re.compile(r'\b(username|password)\s*=\s*"((?:[^"\\]|\\.)*)"')
STORE_TYPES: Final = ("ssl.truststore.type", "ssl.keystore.type")
TRUST: Final = "ssl.truststore.location"
HOST_CHECK: Final = "ssl.endpoint.identification.algorithm"
OTHER_NAMES: Final = {TRUST: "ssl.ca.location", "max.request.size": "message.max.bytes"}
TRANSLATED: Final = frozenset({JAAS, *STORE_TYPES, *OTHER_NAMES})
CONSUMER_PROPERTIES: Final = (
    "auto.offset.reset",
    "fetch.",
    "heartbeat.",
    "max.partition.fetch.bytes",
    "max.poll.",
    "session.timeout.ms",
)
UNKNOWN_PROPERTY: Final = "no such property"


def librdkafka_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Logins, certificates, the check of host names and the size of records are said otherwise."""
    said = dict(properties)
    if JAAS in said:
        said |= login(said.pop(JAAS))
    if said.get(HOST_CHECK) == "":
        said[HOST_CHECK] = "none"
    if {said.pop(name, "PEM") for name in STORE_TYPES} != {"PEM"}:
        raise CannotPublish("exactly-once publishing reads certificates as PEM alone")
    return {OTHER_NAMES.get(name, name): value for name, value in said.items()}


def librdkafka_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """What is said to all clients, without what only a reader or Java can make use of."""
    return {
        name: value
        for name, value in settings.items()
        if not name.startswith(CONSUMER_PROPERTIES) and (name in TRANSLATED or is_known(name))
    }


@cache
def is_known(name: str) -> bool:
    """Librdkafka has no list of its properties, but names the first that it does not know."""
    try:
        Producer({name: "", UNKNOWN_PROPERTY: ""})
    except KafkaException as refusal:
        return f'No such configuration property: "{name}"' not in refusal.args[0].str()
    raise AssertionError(UNKNOWN_PROPERTY)


def login(jaas: str) -> dict[str, str]:
    """Of the modules for PLAIN and SCRAM; others need more than a name and a password."""
    found = {name: re.sub(r"\\(.)", r"\1", text) for name, text in JAAS_FIELD.findall(jaas)}
    if found.keys() != {"username", "password"}:
        raise CannotPublish(f"{JAAS} has no username and password for librdkafka")
    return {f"sasl.{name}": text for name, text in found.items()}
