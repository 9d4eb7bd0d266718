"""Forwards requests to the active controller, if it is another process (KIP-590).

The module of a forwarded API has a function `failed`, which returns the response for an error. Its
function `handle_forwarded`, if there is one, replaces the forwarding of the whole request.
"""

from __future__ import annotations

import logging
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias

from pykbroker.apis.answers import ProtocolViolation
from pykbroker.controller_access import ControllerUnavailable
from pykbroker_protocol.errors import ErrorCode, Refusal
from pykbroker_protocol.message import Message

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pykbroker.apis import Api, Handle
    from pykbroker.apis.node import Call

    Forward: TypeAlias = Callable[[Any], Awaitable[Any]]
    """Forwards a request; an error becomes the response of `failed`."""

logger = logging.getLogger(__name__)


def forwarding_handle(api: Api) -> Handle:
    module = import_module(f"pykbroker.apis.{api.name}")
    handle_forwarded = getattr(module, "handle_forwarded", None)

    def handle(request: Message, call: Call) -> Awaitable[Message]:
        forward = partial(forwarded, api=api, call=call, failed=module.failed)
        if handle_forwarded is None:
            return forward(request)
        handled: Awaitable[Message] = handle_forwarded(request, call, forward)
        return handled

    return handle


async def forwarded(
    request: Message, *, api: Api, call: Call, failed: Callable[[Any, Refusal, Call], Message]
) -> Message:
    """Returns the response of the controller, or one with an error for each element."""
    assert call.node.forward is not None, "the controller is another process"
    try:
        response = await call.node.forward.forward(
            request, api.response_type, version=call.version, client=call.client
        )
    except ControllerUnavailable as failure:
        logger.debug("%s of %s: %s", api.title, call.peer, failure)
        return failed(request, Refusal(failure.code), call)
    if isinstance(response, Message):
        return response
    if response is ErrorCode.UNSUPPORTED_VERSION:
        # The controller has changed. As in Kafka, the client reconnects and gets its versions.
        raise ProtocolViolation(
            f"the active controller does not support {api.title} version {call.version}"
        )
    # The Envelope is rejected because of this broker, so its error is not one of the request.
    logger.error(
        "%s: the active controller rejects the Envelope (%s); the client gets UNKNOWN_SERVER_ERROR",
        api.title,
        response.name,
    )
    code = ErrorCode.UNKNOWN_SERVER_ERROR
    return failed(request, Refusal(code, code.sentence), call)
