"""Each declaration equals the message definition in the jars of Apache Kafka."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

import pytest

from pykbroker_protocol.message import (
    NO_VERSIONS,
    ZERO_UUID,
    Field,
    Message,
    Versions,
    parse_versions,
)
from tests.protocol.random_messages import DECLARED

Json = dict[str, Any]
STRUCT = "a struct"


class Fact(NamedTuple):
    """The properties of one field in a form that both sides are converted to."""

    type: str
    versions: Versions
    nullable: Versions
    tag: int | None
    tagged: Versions
    ignorable: bool
    default: Any
    never_compact: bool


Facts = dict[str, Fact]
"""By path, for example `topicdata.partitiondata.records`, in the order of the encoding."""


def clamp(versions: Versions, outer: Versions) -> Versions:
    """Limits versions to those of the message, so that `0+` equals `0-4`."""
    both = Versions(max(versions.first, outer.first), min(versions.last, outer.last))
    return both if both.first <= both.last else NO_VERSIONS


def without_underscores(name: str) -> str:
    return name.replace("_", "").lower()


# --- Our declarations ---


def declared_facts(message: type[Message], outer: Versions, path: str = "") -> Facts:
    facts: Facts = {}
    for field in message.fields:
        here = path + without_underscores(field.name)
        facts[here] = declared_fact(field, outer)
        if field.struct is not None:
            facts |= declared_facts(field.struct, outer, f"{here}.")
    return facts


def declared_fact(field: Field, outer: Versions) -> Fact:
    of = field.kind.name if field.kind else STRUCT
    return Fact(
        type=f"[]{of}" if field.is_array else of,
        versions=clamp(field.versions, outer),
        nullable=clamp(field.nullable, outer),
        tag=field.tag,
        tagged=clamp(field.tagged, outer),
        ignorable=field.ignorable,
        default=declared_default(field),
        never_compact=field.never_compact,
    )


def declared_default(field: Field) -> Any:
    if field.struct is not None and not field.is_array and field.default is not None:
        assert field.default == field.struct()
        return STRUCT
    return field.default


# --- Definitions of Apache Kafka ---


def defined_facts(definition: Json, outer: Versions) -> Facts:
    common = {it["name"]: it["fields"] for it in definition.get("commonStructs", [])}

    def facts_of(fields: list[Json], path: str) -> Facts:
        facts: Facts = {}
        for field in fields:
            here = path + without_underscores(field["name"])
            facts[here] = defined_fact(field, outer)
            of = field["type"].removeprefix("[]")
            facts |= facts_of(field.get("fields") or common.get(of) or [], f"{here}.")
        return facts

    return facts_of(definition["fields"], "")


def defined_fact(field: Json, outer: Versions) -> Fact:
    of = field["type"].removeprefix("[]")
    tagged: str = field.get("taggedVersions", "none")
    return Fact(
        # Names of structs can differ: a module contains both directions, whose names can clash.
        type=field["type"].replace(of, STRUCT) if of[0].isupper() else field["type"],
        versions=clamp(parse_versions(field.get("versions", tagged)), outer),
        nullable=clamp(parse_versions(field.get("nullableVersions", "none")), outer),
        tag=field.get("tag"),
        tagged=clamp(parse_versions(tagged), outer),
        ignorable=as_bool(field.get("ignorable", False)),
        default=defined_default(field),
        never_compact=field.get("flexibleVersions") == "none",
    )


def as_bool(value: object) -> bool:
    return str(value).lower() == "true"


def defined_default(field: Json) -> Any:  # noqa: PLR0911  # one answer per type
    text, kind = field.get("default"), field["type"]
    if text == "null":
        return None
    if kind.startswith("[]"):
        return ()
    match kind:
        case "string":
            return text or ""
        case "bytes":
            return b""
        case "records":
            return None
        case "uuid":
            return ZERO_UUID
        case "bool":
            return as_bool(text)
        case "float64":
            return float(text or 0)
        case _ if kind[0].isupper():
            return STRUCT
        case _:
            return int(str(text or 0), 0)


@pytest.fixture(scope="session")
def definitions(apache_message_definitions: dict[str, str]) -> dict[str, Json]:
    comment = re.compile(r"^\s*//.*$", re.MULTILINE)
    read = [json.loads(comment.sub("", text)) for text in apache_message_definitions.values()]
    return {it["name"]: it for it in read}


@pytest.mark.parametrize("message", DECLARED, ids=lambda it: it.__name__)
def test_a_declaration_equals_the_definition_of_apache_kafka(
    message: type[Message], definitions: dict[str, Json]
) -> None:
    definition = definitions[message.__name__]
    outer = parse_versions(definition["validVersions"])
    assert message.versions == outer
    assert clamp(message.flexible, outer) == clamp(
        parse_versions(definition["flexibleVersions"]), outer
    )
    assert message.latest_unstable == as_bool(definition.get("latestVersionUnstable", False))
    key = max(message.record_type, message.api)
    assert key == definition.get("apiKey", -1)
    declared, defined = declared_facts(message, outer), defined_facts(definition, outer)
    assert declared == defined
    assert list(declared) == list(defined)
