"""Serves large requests: decodes, handles and encodes them in slices.

The handler receives the whole request and yields itself (`slices`), or parts of it (`parts`).
"""

from __future__ import annotations

from inspect import isawaitable
from typing import TYPE_CHECKING, Final

from pykbroker.apis.answers import ProtocolViolation, unreadable
from pykbroker.apis.parts import Joined, parts_of
from pykbroker.apis.slices import in_slices, next_turn
from pykbroker_protocol.compiler import (
    MalformedMessage,
    TooManyElements,
    sliced_reader_of,
)
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.frame import write_response_in_slices

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from pykbroker.apis import Api, Handle
    from pykbroker.apis.answers import Ready
    from pykbroker.apis.node import Call
    from pykbroker_protocol.message import Message

PART_ELEMENTS: Final = 64
"""Elements of a part of a divided request; each can append to a log or change a group."""


async def serve(
    api: Api,
    handle: Handle,
    call: Call,
    correlation_id: int,
    frame_and_position: tuple[memoryview, int],
) -> Ready:
    request = await read(api, call, *frame_and_position)
    if api.divided is None:
        response = await awaited(handle(request, call))
    else:
        response = await respond_in_parts(request, api.divided, handle, call)
    del request  # frees its elements before the response is encoded
    return None if response is None else await write(response, call.version, correlation_id)


async def read(api: Api, call: Call, frame: memoryview, position: int) -> Message:
    """Decodes the request; raises ProtocolViolation above `socket.request.max.elements`."""
    elements_max = max(
        call.node.settings.socket_request_max_elements,
        2 * len(call.node.partitions),  # a follower may fetch all, each of another topic
    )
    slices = sliced_reader_of(api.request_type, call.version)(frame, position, elements_max)
    try:
        return (await in_slices(slices))[0]
    except TooManyElements as error:
        raise ProtocolViolation(
            f"its {api.title} request has more than {elements_max} elements "
            f"(socket.request.max.elements); {error}"
        ) from error
    except MalformedMessage as error:
        raise unreadable(frame, error) from error


async def awaited(answer: Message | Awaitable[Message | None] | None) -> Message | None:
    return await answer if isawaitable(answer) else answer


async def respond_in_parts(
    request: Message, array: str, handle: Handle, call: Call
) -> Message | None:
    """Handles parts until one returns an error code for the whole request."""
    joined = Joined()
    for part in parts_of(request, array, PART_ELEMENTS):
        await next_turn()
        response = await awaited(handle(part, call))
        if response is not None:
            joined.add(response)
            if getattr(response, "error_code", ErrorCode.NONE) != ErrorCode.NONE:
                break
    whole: Message | None = joined.response()
    return whole


async def write(message: Message, version: int, correlation_id: int) -> Ready:
    return await in_slices(write_response_in_slices(message, version, correlation_id))
