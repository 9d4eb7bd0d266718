"""Properties as Java's clients and Spark name them, said to librdkafka."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from pykbroker.pipeline.topic_target import CannotPublish

if TYPE_CHECKING:
    from collections.abc import Mapping

JAAS: Final = "sasl.jaas.config"
JAAS_FIELD: Final = re.compile(r'\b(username|password)\s*=\s*"((?:[^"\\]|\\.)*)"')
STORE_TYPES: Final = ("ssl.truststore.type", "ssl.keystore.type")
TRUST: Final = "ssl.truststore.location"
HOST_CHECK: Final = "ssl.endpoint.identification.algorithm"


def librdkafka_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Logins, certificates and the check of host names are the three that have other names."""
    said = dict(properties)
    if JAAS in said:
        said |= login(said.pop(JAAS))
    if said.get(HOST_CHECK) == "":
        said[HOST_CHECK] = "none"
    if {said.pop(name, "PEM") for name in STORE_TYPES} != {"PEM"}:
        raise CannotPublish("exactly-once publishing reads certificates as PEM alone")
    if TRUST in said:
        said["ssl.ca.location"] = said.pop(TRUST)
    return said


def login(jaas: str) -> dict[str, str]:
    """Of the modules for PLAIN and SCRAM; others need more than a name and a password."""
    found = {name: re.sub(r"\\(.)", r"\1", text) for name, text in JAAS_FIELD.findall(jaas)}
    if found.keys() != {"username", "password"}:
        raise CannotPublish(f"{JAAS} has no username and password for librdkafka")
    return {f"sasl.{name}": text for name, text in found.items()}
