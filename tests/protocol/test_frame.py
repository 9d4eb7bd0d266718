"""Request and response headers of flexible and other versions, with the two exceptions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pykbroker_protocol.api_keys import ApiKey
from pykbroker_protocol.catalog import record_of, request_of, response_of
from pykbroker_protocol.compiler import MalformedMessage
from pykbroker_protocol.frame import (
    body_position,
    read_request_header,
    read_response_header,
    write_request,
    write_response,
)
from pykbroker_protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from pykbroker_protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from pykbroker_protocol.metadata.topics import TopicRecord

if TYPE_CHECKING:
    from pykbroker_protocol.message import Message

REQUESTS: list[tuple[Message, int, str | None, bytes]] = [
    # A header without tags, a flexible one, a null client id, an empty client id.
    (HeartbeatRequest(group_id="", generation_id=1, member_id=""), 0, "me", b"\0\x02me"),
    (HeartbeatRequest(group_id="", generation_id=1, member_id=""), 4, "me", b"\0\x02me\0"),
    (HeartbeatRequest(group_id="", generation_id=1, member_id=""), 4, None, b"\xff\xff\0"),
    (HeartbeatRequest(group_id="", generation_id=1, member_id=""), 3, "", b"\0\0"),
    (ApiVersionsRequest(), 3, "Öl", b"\0\x03\xc3\x96l\0"),
]


@pytest.mark.parametrize(("message", "version", "client_id", "name"), REQUESTS)
def test_a_request_header_ends_with_a_client_id_that_is_never_compact(
    message: Message, version: int, client_id: str | None, name: bytes
) -> None:
    frame = b"".join(write_request(message, version, 7, client_id))
    head = message.api.to_bytes(2) + version.to_bytes(2) + b"\0\0\0\x07" + name
    assert frame.startswith(head)
    header = read_request_header(memoryview(frame))
    assert header[:4] == (message.api, version, 7, client_id)
    assert body_position(header, frame, type(message)) == len(head)


RESPONSES: list[tuple[Message, int, bytes]] = [
    (HeartbeatResponse(error_code=27), 0, b"\0\0\0\x07" + b"\0\x1b"),
    (HeartbeatResponse(error_code=27), 4, b"\0\0\0\x07\0" + b"\0\0\0\0\0\x1b\0"),
    (ApiVersionsResponse(error_code=35, api_keys=()), 0, b"\0\0\0\x07" + b"\0\x23\0\0\0\0"),
    # Flexible, but with header version 0: the client does not know the versions of the broker yet.
    (ApiVersionsResponse(error_code=35, api_keys=()), 3, b"\0\0\0\x07" + b"\0\x23\x01\0\0\0\0\0"),
]


@pytest.mark.parametrize(("message", "version", "frame"), RESPONSES)
def test_a_response_header_has_tags_when_flexible_but_never_for_api_versions(
    message: Message, version: int, frame: bytes
) -> None:
    assert b"".join(write_response(message, version, 7)) == frame
    correlation_id, body = read_response_header(frame, type(message), version)
    assert correlation_id == 7
    assert body == (5 if version == 4 else 4)


def test_tags_of_a_header_are_skipped() -> None:
    tags = b"\x02\x00\x03abc\x05\x00"
    frame = b"\0\x0c\0\x04\0\0\0\x07\xff\xff" + tags
    assert body_position(read_request_header(frame), frame, HeartbeatRequest) == len(frame)
    with pytest.raises(MalformedMessage, match="header tags"):
        body_position(read_request_header(frame), frame[:-1], HeartbeatRequest)


@pytest.mark.parametrize("frame", [b"", b"\0\x0c\0\x04\0\0", b"\0\x0c\0\x04\0\0\0\x07\0\x01\xff"])
def test_a_truncated_header_or_invalid_utf8_is_malformed(frame: bytes) -> None:
    with pytest.raises(MalformedMessage, match="request header"):
        read_request_header(frame)


def test_declarations_are_found_by_api_key_and_record_type() -> None:
    assert request_of(ApiKey.HEARTBEAT) is HeartbeatRequest
    assert response_of(ApiKey.HEARTBEAT) is HeartbeatResponse
    assert record_of(2) is TopicRecord
    for unknown in (-1, 4, 32767, ApiKey.LEADER_AND_ISR):
        assert request_of(unknown) is None
        assert response_of(unknown) is None
        assert record_of(32767) is None
