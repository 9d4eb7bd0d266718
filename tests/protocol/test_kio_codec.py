"""kio, an independent codec on PyPI, decodes our frames, and its frames are decoded.

kio lacks most records of the metadata log, drops unknown tags, and has its own types for times and
error codes. The values of these tests are limited to what its types can represent.
"""

from __future__ import annotations

import dataclasses
import io
import typing
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any
from uuid import UUID

import pytest
from kio.index import load_entity_schema, load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from pykbroker_protocol.compiler import decode, encode
from pykbroker_protocol.message import Message
from pykbroker_protocol.metadata import control
from tests.protocol.random_messages import REQUESTS, RESPONSES, random_message, versions_of

pytestmark = pytest.mark.slow

CONTROL_RECORDS = {
    control.LeaderChangeMessage: "leader_change_message",
    control.SnapshotHeaderRecord: "snapshot_header_record",
    control.SnapshotFooterRecord: "snapshot_footer_record",
    control.KRaftVersionRecord: "k_raft_version_record",
    control.VotersRecord: "voters_record",
}
MILLISECONDS_MAX = 2**42
ROUNDS = 3


def kio_class(message: type[Message], version: int) -> Any:
    if message in CONTROL_RECORDS:
        return load_entity_schema(CONTROL_RECORDS[message], version, EntityType.data)
    load = load_request_schema if message.__name__.endswith("Request") else load_response_schema
    return load(message.api, version)


@pytest.mark.parametrize(
    "message", [*REQUESTS, *RESPONSES, *CONTROL_RECORDS], ids=lambda it: it.__name__
)
def test_kio_and_our_codec_decode_the_frames_of_each_other(message: type[Message]) -> None:
    for version in versions_of(message):
        theirs = kio_class(message, version)
        random = Random(f"{message.__name__} {version}")
        for _ in range(ROUNDS):
            drawn = random_message(message, version, random, unknown_tags=False)
            ours, expected = on_both_sides(drawn, theirs, version)
            data = encode(ours, version)
            assert entity_reader(theirs)(data, 0)[0] == expected
            assert written_by_kio(expected) == data
            assert decode(message, version, data) == ours


def written_by_kio(entity: Any) -> bytes:
    buffer = io.BytesIO()
    entity_writer(type(entity))(buffer, entity)
    return buffer.getvalue()


def on_both_sides(drawn: Message, theirs: Any, version: int) -> tuple[Message, Any]:
    """The same values as our message and as an entity of kio."""
    ours, expected = {}, {}
    declared = [it for it in drawn.fields if version in it.versions]
    for field, other in zip(declared, dataclasses.fields(theirs), strict=True):
        assert other.name.removesuffix("_") in (field.name, field.name.removesuffix("_ms"))
        values = getattr(drawn, field.name), typing.get_type_hints(theirs)[other.name]
        ours[field.name], expected[other.name] = value_on_both_sides(*values, other, version)
    return drawn.replace(**ours), theirs(**expected)


def value_on_both_sides(value: Any, hint: Any, other: Any, version: int) -> tuple[Any, Any]:
    if isinstance(value, list | tuple):
        (element,) = (it for it in inner_types(hint) if it is not type(None))
        pairs = [value_on_both_sides(it, element, other, version) for it in value]
        return tuple(it for it, _ in pairs), tuple(it for _, it in pairs)
    if isinstance(value, Message):
        entity = next(it for it in (hint, *typing.get_args(hint)) if dataclasses.is_dataclass(it))
        return on_both_sides(value, entity, version)
    return primitive_on_both_sides(value, other.metadata.get("kafka_type"))


def inner_types(hint: Any) -> list[Any]:
    """`X` of `tuple[X, ...]` or of `tuple[X, ...] | None`."""
    array = next(it for it in (hint, *typing.get_args(hint)) if typing.get_origin(it) is tuple)
    return [it for it in typing.get_args(array) if it is not Ellipsis]


def primitive_on_both_sides(value: Any, kafka_type: str | None) -> tuple[Any, Any]:
    match kafka_type:
        case "error_code":
            code = list(ErrorCode)[value % len(ErrorCode)]
            return code.value, code
        case "uuid":
            return value, UUID(bytes=value) if value and any(value) else None
        case "timedelta_i32":
            return value, timedelta(milliseconds=value)
        case "timedelta_i64":
            value %= MILLISECONDS_MAX
            return value, timedelta(milliseconds=value)
        case "datetime_i64":
            value %= MILLISECONDS_MAX
            return value, datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=value)
        case _:
            return value, value
