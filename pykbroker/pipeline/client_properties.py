"""Translates client properties of Java and Spark for librdkafka."""

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
    """Translates JAAS logins, certificates, the host name check and the size of requests."""
    translated = dict(properties)
    if JAAS in translated:
        translated |= login(translated.pop(JAAS))
    if translated.get(HOST_CHECK) == "":
        translated[HOST_CHECK] = "none"
    if {translated.pop(name, "PEM") for name in STORE_TYPES} != {"PEM"}:
        raise CannotPublish("exactly-once publishing supports certificates in PEM format only")
    return {OTHER_NAMES.get(name, name): value for name, value in translated.items()}


def librdkafka_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Returns the settings that a librdkafka producer supports: no consumer or Java-only ones."""
    return {
        name: value
        for name, value in settings.items()
        if not name.startswith(CONSUMER_PROPERTIES) and (name in TRANSLATED or is_known(name))
    }


@cache
def is_known(name: str) -> bool:
    """True if librdkafka has this property. It has no list, but names the first unknown one."""
    try:
        Producer({name: "", UNKNOWN_PROPERTY: ""})
    except KafkaException as refusal:
        return f'No such configuration property: "{name}"' not in refusal.args[0].str()
    raise AssertionError(UNKNOWN_PROPERTY)


def login(jaas: str) -> dict[str, str]:
    """Parses the JAAS configuration of PLAIN and SCRAM; other mechanisms are not supported."""
    found = {name: re.sub(r"\\(.)", r"\1", text) for name, text in JAAS_FIELD.findall(jaas)}
    if found.keys() != {"username", "password"}:
        raise CannotPublish(f"{JAAS} does not contain username and password; librdkafka needs both")
    return {f"sasl.{name}": text for name, text in found.items()}
