"""Actions of faults on requests: each action wraps the handler of the request."""

from __future__ import annotations

import asyncio
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

from pykbroker.apis.answers import ProtocolViolation
from pykbroker.testing.active_fault import valid_duration
from pykbroker.testing.error_responses import (
    PATCHED_RESPONSES,
    error_response,
    merged,
    patched_response,
)
from pykbroker_protocol.frame import write_response
from pykbroker_protocol.message import Message

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from pykbroker.apis import Api, Handle
    from pykbroker.apis.node import Call
    from pykbroker.testing.request_splitting import PartitionFilter
    from pykbroker_protocol.errors import ErrorCode

    Response: TypeAlias = Message | Awaitable[Message | None] | None


class RequestFault(Protocol):
    """The part of a fault that actions use."""

    hits: int

    @property
    def is_selective(self) -> bool: ...
    def partition_filter(self, call: Call) -> PartitionFilter: ...
    async def until_ended(self) -> None: ...
    def __str__(self) -> str: ...


class FaultedRequest(NamedTuple):
    """A request that a fault applies to, and its handler."""

    fault: RequestFault
    api: Api
    handle: Handle
    request: Any
    call: Call

    async def served(self) -> Message | None:
        """Calls the handler and returns its response."""
        return await resolved(self.handle(self.request, self.call))


class FaultAction(Protocol):
    """Replaces the handling of a request. Its text names the action in reports."""

    def apply(self, target: FaultedRequest) -> Response: ...
    def __str__(self) -> str: ...


async def resolved(response: Response) -> Message | None:
    if isawaitable(response):
        return await response
    return response


class Refuse:
    """Responds with an error without serving. Partitions that the fault leaves out are served."""

    def __init__(self, code: ErrorCode) -> None:
        self.code = code

    def __str__(self) -> str:
        return f"respond with {self.code.name}"

    def apply(self, target: FaultedRequest) -> Response:
        fault, call = target.fault, target.call
        if target.api.key in PATCHED_RESPONSES:
            return self.patched(target)
        if not fault.is_selective:
            return self.refused(target, target.request)
        affected, rest = fault.partition_filter(call).split(target.request)
        refused = self.refused(target, affected)
        return refused if rest is None else self.with_rest(target, refused, rest)

    def refused(self, target: FaultedRequest, request: Any) -> Message:
        made = error_response(request, target.api.response_type, target.call.version, self.code)
        assert isinstance(made, Message)
        return made

    async def patched(self, target: FaultedRequest) -> Message | None:
        response = await target.served()
        if response is None:
            return None
        affected, version = target.fault.partition_filter(target.call), target.call.version
        patched = patched_response(response, affected, version, self.code)
        if patched is None:
            target.fault.hits -= 1  # the response has no row that the fault applies to
        return patched or response

    async def with_rest(
        self, target: FaultedRequest, refused: Message, rest: Any
    ) -> Message | None:
        response = await resolved(target.handle(rest, target.call))
        return None if response is None else merged(refused, response)


class Delay:
    """Serves the request at once and delays the response."""

    def __init__(self, seconds: float) -> None:
        self.seconds = valid_duration(seconds)

    def __str__(self) -> str:
        return f"delay the response by {self.seconds:g} s"

    async def apply(self, target: FaultedRequest) -> Message | None:
        response = await target.served()
        await asyncio.sleep(self.seconds)
        return response


class Stall:
    """Serves the request at once and holds the response until the fault ends."""

    def __str__(self) -> str:
        return "hold the response"

    async def apply(self, target: FaultedRequest) -> Message | None:
        response = await target.served()
        await target.fault.until_ended()
        return response


class Drop:
    """Closes the connection without serving the request."""

    def __str__(self) -> str:
        return "close the connection instead of serving"

    def apply(self, target: FaultedRequest) -> Response:
        raise ProtocolViolation(f"injected fault: {target.fault}")


class LoseAnswer:
    """Serves the request and closes the connection without a response."""

    def __str__(self) -> str:
        return "lose the response"

    async def apply(self, target: FaultedRequest) -> Message | None:
        await target.served()
        raise ProtocolViolation(f"injected fault: {target.fault}")


class CutAnswer:
    """Serves the request, sends half of the response and closes the connection."""

    def __str__(self) -> str:
        return "send half of the response"

    async def apply(self, target: FaultedRequest) -> Message | None:
        response = await target.served()
        frame = b"" if response is None else framed(response, target.call)
        raise ProtocolViolation(f"injected fault: {target.fault}", frame[: len(frame) // 2])


class DoTwice:
    """Serves the request twice, like a retry of the client, and sends the second response."""

    def __str__(self) -> str:
        return "serve the request twice"

    async def apply(self, target: FaultedRequest) -> Message | None:
        await target.served()
        return await target.served()


def framed(response: Message, call: Call) -> bytes:
    """The frame with correlation id 0: clients do not decode a truncated frame."""
    body = b"".join(write_response(response, call.version, 0))
    return len(body).to_bytes(4, "big") + body
