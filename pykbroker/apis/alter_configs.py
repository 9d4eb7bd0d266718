"""AlterConfigs: replaces the whole configuration of a resource; other properties are unset."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pykbroker.apis.forwarded_configurations import forward_remaining
from pykbroker.apis.slices import each
from pykbroker.controller_access import ConfigurationReplacement
from pykbroker_protocol.errors import ErrorCode, Refusal
from pykbroker_protocol.messages.alter_configs import (
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pykbroker.apis.node import Call
    from pykbroker_protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResource


async def handle(request: AlterConfigsRequest, call: Call) -> AlterConfigsResponse:
    outcomes = await call.node.controller.replace_configurations(
        await each(replacement, request.resources), validate_only=request.validate_only
    )
    return AlterConfigsResponse(
        responses=await each(
            lambda it: result(*it), list(zip(request.resources, outcomes, strict=True))
        )
    )


async def handle_forwarded(
    request: AlterConfigsRequest, call: Call, forward: Callable[[Any], Awaitable[Any]]
) -> AlterConfigsResponse:
    rows = await forward_remaining(request, forward, call, change_of=replacement)
    return AlterConfigsResponse(responses=await each(lambda it: result(*it), rows))


def replacement(resource: AlterConfigsResource) -> ConfigurationReplacement:
    return ConfigurationReplacement(
        resource_type=resource.resource_type,
        name=resource.resource_name,
        values=[(it.name, it.value) for it in resource.configs],
    )


def result(resource: AlterConfigsResource, outcome: Refusal | None) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error_code=ErrorCode.NONE if outcome is None else outcome.code,
        error_message=None if outcome is None else outcome.message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


def failed(request: AlterConfigsRequest, refusal: Refusal, _call: Call) -> AlterConfigsResponse:
    return AlterConfigsResponse(responses=[result(it, refusal) for it in request.resources])
