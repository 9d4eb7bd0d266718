"""Reads and writes request and response headers.

Flexible versions of a message use a header with tagged fields. There are two exceptions: the client
id is never compact, and ApiVersions responses always use header version 0, so that a client can
read them before it knows the versions of the broker.
"""

from __future__ import annotations

import struct
import sys
from typing import TYPE_CHECKING, NamedTuple

from pykbroker_protocol.api_keys import ApiKey
from pykbroker_protocol.compiler import MalformedMessage, sliced_writer_of, writer_of
from pykbroker_protocol.varint import TAGS_MAX, read_uvarint

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from pykbroker_protocol.compiler import Buffer
    from pykbroker_protocol.message import Message

_REQUEST_HEAD = struct.Struct(">hhih")
_CORRELATION = struct.Struct(">i")
_CORRELATION_AND_NO_TAGS = struct.Struct(">ix")


class RequestHeader(NamedTuple):
    """The request header up to the client id; the response repeats `correlation_id`."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body_position: int
    """The position after the client id; in flexible versions tagged fields precede the body."""


def read_request_header(frame: Buffer) -> RequestHeader:
    """Reads the part of a request header that all versions share."""
    try:
        api_key, version, correlation_id, size = _REQUEST_HEAD.unpack_from(frame)
        stop = _REQUEST_HEAD.size + size
        if size < 0:
            return RequestHeader(api_key, version, correlation_id, None, _REQUEST_HEAD.size)
        if stop > len(frame):
            raise MalformedMessage("request header: client id is truncated")
        client_id = str(frame[_REQUEST_HEAD.size : stop], "utf-8")
    except (struct.error, UnicodeDecodeError) as error:
        raise MalformedMessage(f"request header: {error}") from error
    return RequestHeader(api_key, version, correlation_id, client_id, stop)


def skip_tags(frame: Buffer, position: int) -> int:
    """Returns the position after a section of tagged fields."""
    try:
        if frame[position] == 0:
            return position + 1
        count, position = read_uvarint(frame, position)
        if count > TAGS_MAX:
            raise MalformedMessage(f"header tags: {count} tagged fields")
        for _ in range(count):
            _, position = read_uvarint(frame, position)
            size, position = read_uvarint(frame, position)
            position += size
    except IndexError as error:
        raise MalformedMessage(f"header tags: {error}") from error
    if position > len(frame):
        raise MalformedMessage("header tags: truncated")
    return position


def body_position(header: RequestHeader, frame: Buffer, message: type[Message]) -> int:
    """Returns the position of the request body."""
    if header.api_version in message.flexible:
        return skip_tags(frame, header.body_position)
    return header.body_position


def write_request(
    message: Message, version: int, correlation_id: int, client_id: str | None
) -> list[Buffer]:
    """Returns a request as buffers to be sent in order, without the frame size."""
    out = request_head(message, version, correlation_id, client_id)
    parts: list[Buffer] = []
    parts.append(writer_of(type(message), version)(message, out, parts))
    return parts


def write_request_in_slices(
    message: Message, version: int, correlation_id: int, client_id: str | None
) -> Generator[None, None, list[Buffer]]:
    """`write_request` as a generator that yields after each slice of elements."""
    out = request_head(message, version, correlation_id, client_id)
    parts: list[Buffer] = []
    parts.append((yield from sliced_writer_of(type(message), version)(message, out, parts)))
    return parts


def request_head(
    message: Message, version: int, correlation_id: int, client_id: str | None
) -> bytearray:
    name = b"" if client_id is None else client_id.encode()
    size = -1 if client_id is None else len(name)
    out = bytearray(_REQUEST_HEAD.pack(message.api, version, correlation_id, size))
    out += name
    if version in message.flexible:
        out.append(0)
    return out


def write_response(message: Message, version: int, correlation_id: int) -> list[Buffer]:
    """Returns a response as buffers to be sent in order, without the frame size."""
    return response_writer(type(message), version)(message, correlation_id)


def response_writer(
    message_type: type[Message], version: int, elements_max: int = sys.maxsize
) -> Callable[[Message, int], list[Buffer]]:
    """Returns `write_response` specialized for one message and version.

    The returned function raises TooManyElements for a message of more than `elements_max` elements.
    """
    write = writer_of(message_type, version)
    head = response_head(message_type, version)

    def write_buffers(message: Message, correlation_id: int) -> list[Buffer]:
        parts: list[Buffer] = []
        parts.append(write(message, bytearray(head.pack(correlation_id)), parts, elements_max))
        return parts

    return write_buffers


def write_response_in_slices(
    message: Message, version: int, correlation_id: int
) -> Generator[None, None, list[Buffer]]:
    """`write_response` as a generator that yields after each slice of elements."""
    parts: list[Buffer] = []
    head = response_head(type(message), version).pack(correlation_id)
    write = sliced_writer_of(type(message), version)
    parts.append((yield from write(message, bytearray(head), parts)))
    return parts


def response_head(message_type: type[Message], version: int) -> struct.Struct:
    has_tags = version in message_type.flexible and message_type.api != ApiKey.API_VERSIONS
    return _CORRELATION_AND_NO_TAGS if has_tags else _CORRELATION


def read_response_header(frame: Buffer, message: type[Message], version: int) -> tuple[int, int]:
    """Returns the correlation id of a response and the position of its body."""
    try:
        (correlation_id,) = _CORRELATION.unpack_from(frame)
    except struct.error as error:
        raise MalformedMessage(f"response header: {error}") from error
    if version in message.flexible and message.api != ApiKey.API_VERSIONS:
        return correlation_id, skip_tags(frame, _CORRELATION.size)
    return correlation_id, _CORRELATION.size
