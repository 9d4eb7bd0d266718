"""Replaces broker addresses in responses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pykbroker_protocol.api_keys import ApiKey
from pykbroker_protocol.catalog import response_of
from pykbroker_protocol.compiler import MalformedMessage, decode
from pykbroker_protocol.frame import read_response_header, write_response

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

Address = tuple[str, int]

ANSWERS_WITH_ADDRESSES: Final = frozenset(
    {
        ApiKey.METADATA,
        ApiKey.DESCRIBE_CLUSTER,
        ApiKey.FIND_COORDINATOR,
        # These name the new leader after a leader change (KIP-951).
        ApiKey.PRODUCE,
        ApiKey.FETCH,
    }
)


async def with_addresses_replaced(
    frame: bytes,
    api_key: int,
    version: int,
    other: Callable[[Address], Awaitable[Address]],
) -> bytes:
    """Returns the response with each address replaced, or unchanged if it cannot be decoded."""
    message_type = response_of(api_key)
    if message_type is None or version not in message_type.versions:
        return frame
    try:
        correlation_id, position = read_response_header(frame, message_type, version)
        message = decode(message_type, version, frame, position)
    except MalformedMessage:
        return frame
    replaced = await _replaced(message, other)
    if replaced is message:
        return frame
    return b"".join(write_response(replaced, version, correlation_id))


async def _replaced(message: Any, other: Callable[[Address], Awaitable[Address]]) -> Any:
    changes: dict[str, Any] = {}
    if getattr(message, "host", ""):
        changes["host"], changes["port"] = await other((message.host, message.port))
    for name in ("brokers", "coordinators", "node_endpoints"):
        if nodes := getattr(message, name, ()):
            changes[name] = [await _replaced(node, other) for node in nodes]
    return message.replace(**changes) if changes else message
