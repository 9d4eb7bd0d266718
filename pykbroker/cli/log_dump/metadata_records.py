"""Decodes metadata records and control records."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from pykbroker.cli.output import uuid_text
from pykbroker_protocol.compiler import MalformedMessage, decode
from pykbroker_protocol.message import UUID, Message
from pykbroker_protocol.metadata import cluster, control, security, topics
from pykbroker_protocol.records.control import ControlRecordType, control_record_type, decode_marker
from pykbroker_protocol.varint import read_uvarint

if TYPE_CHECKING:
    from pykbroker_protocol.message import Field
    from pykbroker_protocol.records.record import Record

CONTROL_MESSAGES: dict[ControlRecordType, type[Message]] = {
    ControlRecordType.LEADER_CHANGE: control.LeaderChangeMessage,
    ControlRecordType.SNAPSHOT_HEADER: control.SnapshotHeaderRecord,
    ControlRecordType.SNAPSHOT_FOOTER: control.SnapshotFooterRecord,
    ControlRecordType.KRAFT_VERSION: control.KRaftVersionRecord,
    ControlRecordType.KRAFT_VOTERS: control.VotersRecord,
}


@cache
def metadata_messages() -> dict[int, type[Message]]:
    """Returns the declared metadata records by record type."""
    declared = [it for module in (cluster, security, topics) for it in vars(module).values()]
    return {
        it.record_type: it
        for it in declared
        if isinstance(it, type) and issubclass(it, Message) and it.record_type >= 0
    }


def metadata_document(value: bytes) -> dict[str, Any]:
    """Decodes frame version, record type, record version and fields of a metadata record."""
    try:
        _, position = read_uvarint(value, 0)
        number, position = read_uvarint(value, position)
        version, position = read_uvarint(value, position)
    except IndexError as error:
        raise MalformedMessage("record is truncated before its type field") from error
    message = metadata_messages().get(number)
    if message is None or version not in message.versions:
        return {"type": f"record {number}", "version": version, "hex": value[position:].hex()}
    fields = message_document(decode(message, version, value, position), version)
    return {"type": message.__name__, "version": version, "fields": fields}


def control_document(record: Record) -> dict[str, Any]:
    """Decodes a control record: a transaction marker or a record of the quorum."""
    record_type = control_record_type(record.key)
    value = record.value or b""
    if record_type is None:
        return {"type": "unknown", "version": None, "hex": value.hex()}
    marker = decode_marker(record.key, record.value)
    if marker is not None:
        fields: dict[str, Any] = {"coordinator_epoch": marker.coordinator_epoch}
        return {"type": record_type.name, "version": 0, "fields": fields}
    message = CONTROL_MESSAGES[record_type]
    version = int.from_bytes(value[:2], "big")
    if version not in message.versions:
        return {"type": message.__name__, "version": version, "hex": value.hex()}
    fields = message_document(decode(message, version, value), version)
    return {"type": message.__name__, "version": version, "fields": fields}


def message_document(message: Message, version: int) -> dict[str, Any]:
    """Converts a message to JSON values; omits fields that its version does not have."""
    return {
        field.name: plain(field, getattr(message, field.name), version)
        for field in message.fields
        if version in field.versions
    }


def plain(field: Field, value: Any, version: int) -> Any:
    if value is None:
        return None
    if field.is_array:
        return [plain_element(field, element, version) for element in value]
    return plain_element(field, value, version)


def plain_element(field: Field, value: Any, version: int) -> Any:
    if isinstance(value, Message):
        return message_document(value, version)
    if field.kind is UUID:
        return uuid_text(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value).hex()
    return value


def control_text(document: dict[str, Any]) -> str:
    if "hex" in document:
        return f"{document['type']} version {document['version']}: {document['hex']}"
    return f"{document['type']} {fields_text(document['fields'])}".rstrip()


def fields_text(fields: Any) -> str:
    """Formats fields as NAME=VALUE; nested values are in braces."""
    return " ".join(f"{name}={nested_text(value)}" for name, value in fields.items())


def nested_text(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + fields_text(value) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(nested_text, value)) + "]"
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
