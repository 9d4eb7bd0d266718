"""Decodes the records of `__consumer_offsets` and `__transaction_state`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pykbroker.cli.log_dump.metadata_records import fields_text, message_document
from pykbroker.cli.record_format import field
from pykbroker.coordinators.group_log import GROUP_RECORDS
from pykbroker.coordinators.records import KEY_VERSION, UnknownRecord, decode_record
from pykbroker.coordinators.transaction_log import TRANSACTION_RECORDS
from pykbroker_protocol.compiler import MalformedMessage
from pykbroker_protocol.consumer_protocol import (
    CONSUMER_PROTOCOL_TYPE,
    read_assignment,
    read_subscription,
)
from pykbroker_protocol.internal_topics.classic_groups import GroupMetadataValue

if TYPE_CHECKING:
    from pykbroker.coordinators.records import RecordType
    from pykbroker_protocol.message import Message
    from pykbroker_protocol.records.record import Record

RecordTypes = dict[int, "RecordType"]

VERSION_BYTES: Final = 2
RECORD_TYPES: Final[dict[str, RecordTypes]] = {
    "__consumer_offsets": GROUP_RECORDS,
    "__transaction_state": TRANSACTION_RECORDS,
}


def coordinator_document(types: RecordTypes, record: Record) -> dict[str, Any]:
    """Returns the key and the value of a record; the value of a tombstone is null."""
    try:
        key, value = decode_record(types, record.key or b"", record.value)
    except UnknownRecord as reason:
        raw = {**field("key", record.key), **field("value", record.value)}
        return {"type": "unknown", "reason": str(reason), **raw}
    return {
        "type": type(key).__name__.removesuffix("Key"),
        "key": message_document(key, KEY_VERSION),
        "value": None if value is None else value_document(value, version_of(record)),
    }


def version_of(record: Record) -> int:
    assert record.value is not None
    return int.from_bytes(record.value[:VERSION_BYTES], "big")


def value_document(value: Message, version: int) -> dict[str, Any]:
    document = message_document(value, version)
    if isinstance(value, GroupMetadataValue) and value.protocol_type == CONSUMER_PROTOCOL_TYPE:
        for member in document["members"]:
            decode_member(member)
    return document


def decode_member(member: dict[str, Any]) -> None:
    """Replaces the subscription and assignment bytes by their contents, if they can be decoded."""
    try:
        topics = list(read_subscription(bytes.fromhex(member["subscription"])).topics)
        assignment = read_assignment(bytes.fromhex(member["assignment"]))
    except MalformedMessage:
        return
    member.update(subscription=topics, assignment=assignment)


def coordinator_text(document: dict[str, Any]) -> str:
    if document["type"] == "unknown":
        return f"unknown: {document['reason']}"
    key, value = document["key"], document["value"]
    value_text = "tombstone" if value is None else fields_text(value)
    return f"{document['type']} {fields_text(key)}: {value_text}"
