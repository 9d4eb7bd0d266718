"""Changes fields of relayed frames to simulate a fault of the broker."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pykbroker_protocol.catalog import request_of, response_of
from pykbroker_protocol.compiler import MalformedMessage, decode
from pykbroker_protocol.frame import (
    RequestHeader,
    body_position,
    read_response_header,
    write_request,
    write_response,
)
from pykbroker_protocol.message import Message

if TYPE_CHECKING:
    from pykbroker_protocol.api_keys import ApiKey

Change = Callable[[Any], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameChange:
    """Changes of fields in requests or responses of one API, by field name at any depth."""

    api_key: ApiKey
    of_requests: bool = False
    fields: Mapping[str, Change]

    def changed(self, header: RequestHeader, frame: bytes, *, is_request: bool) -> bytes:
        """Returns the changed frame; frames that cannot be decoded stay unchanged."""
        if (header.api_key, is_request) != (self.api_key, self.of_requests):
            return frame
        try:
            parts = self._request(header, frame) if is_request else self._response(header, frame)
        except MalformedMessage:
            return frame
        return b"".join(parts)

    def _request(self, header: RequestHeader, frame: bytes) -> Any:
        message_type = request_of(header.api_key)
        assert message_type is not None
        position = body_position(header, frame, message_type)
        message = decode(message_type, header.api_version, frame, position)
        changed = with_changes(message, self.fields)
        return write_request(changed, header.api_version, header.correlation_id, header.client_id)

    def _response(self, header: RequestHeader, frame: bytes) -> Any:
        message_type = response_of(header.api_key)
        assert message_type is not None
        version = header.api_version
        correlation_id, position = read_response_header(frame, message_type, version)
        message = decode(message_type, version, frame, position)
        return write_response(with_changes(message, self.fields), version, correlation_id)


def with_changes(message: Message, changes: Mapping[str, Change]) -> Any:
    values: dict[str, Any] = {}
    for name in message.defaults:
        value = getattr(message, name)
        if isinstance(value, Message):
            value = with_changes(value, changes)
        elif isinstance(value, (list, tuple)):
            value = [with_changes(it, changes) if isinstance(it, Message) else it for it in value]
        values[name] = changes[name](value) if name in changes else value
    return message.replace(**values)
