"""Reduces requests to the fields that must match the recording: without client ids and times."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pykbroker_protocol.api_keys import ApiKey
from pykbroker_protocol.compiler import MalformedMessage, decode
from pykbroker_protocol.consumer_protocol import (
    VERSION_BYTES,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from pykbroker_protocol.message import Message

if TYPE_CHECKING:
    from collections.abc import Mapping

TIMES: Final = frozenset({"timeout_ms", "max_wait_ms", "retention_time_ms", "reason"})
"""Timeouts are often the remaining time of a longer operation of the client."""
CHOSEN: Final[Mapping[int, frozenset[str]]] = {
    ApiKey.API_VERSIONS: frozenset({"client_software_version"}),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: frozenset({"member_id"}),  # the client's, since version 1
    ApiKey.PUSH_TELEMETRY: frozenset({"client_instance_id", "metrics"}),
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: frozenset({"client_instance_id"}),
    ApiKey.SASL_AUTHENTICATE: frozenset({"auth_bytes"}),  # never recorded
}
"""Fields by API that clients choose for each run."""

SUBSCRIPTION: Final = "metadata"
ASSIGNMENT: Final = "assignment"


def comparable(message: Message, version: int) -> Any:
    """Returns plain values that are equal for matching requests; rows are sorted."""
    return plain(message, version, TIMES | CHOSEN.get(message.api, frozenset()))


def plain(value: Any, version: int, left_out: frozenset[str], name: str = "") -> Any:
    if isinstance(value, Message):
        return {
            field.name: plain(getattr(value, field.name), version, left_out, field.name)
            for field in value.fields
            if version in field.versions and field.name not in left_out
        }
    if isinstance(value, (bytes, bytearray, memoryview)):
        return decoded_member_data(bytes(value), name)
    if isinstance(value, (list, tuple)):
        return sorted((plain(it, version, left_out) for it in value), key=repr)
    return value


def decoded_member_data(content: bytes, name: str) -> Any:
    """Decodes subscriptions and assignments of group members, which list topics in any order."""
    kind: type[Message]
    if name == SUBSCRIPTION:
        kind = ConsumerProtocolSubscription
    elif name == ASSIGNMENT:
        kind = ConsumerProtocolAssignment
    else:
        return content
    try:
        version = int.from_bytes(content[:VERSION_BYTES], "big", signed=True)
        if version not in kind.versions:
            return content
        return plain(decode(kind, version, content, VERSION_BYTES), version, frozenset())
    except MalformedMessage:
        return content  # another embedded protocol
