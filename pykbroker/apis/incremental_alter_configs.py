"""IncrementalAlterConfigs: sets, deletes, appends to or subtracts from single properties."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from pykbroker.apis.broker_loggers import BROKER_LOGGER_RESOURCE, alter_loggers
from pykbroker.apis.forwarded_configurations import forward_remaining
from pykbroker.apis.slices import each
from pykbroker.controller_access import ConfigurationChange, ConfigurationOperation
from pykbroker_protocol.errors import ErrorCode, Refusal
from pykbroker_protocol.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from pykbroker.apis.node import Call
    from pykbroker_protocol.messages.incremental_alter_configs import (
        AlterConfigsResource,
        IncrementalAlterConfigsRequest,
    )


async def handle(
    request: IncrementalAlterConfigsRequest, call: Call
) -> IncrementalAlterConfigsResponse:
    loggers, others = split(request.resources)
    validates = request.validate_only
    outcomes = await call.node.controller.alter_configurations(
        await each(change, others), validate_only=request.validate_only
    )
    return IncrementalAlterConfigsResponse(
        responses=[
            *await each(lambda it: result(*it), list(zip(others, outcomes, strict=True))),
            *await each(
                lambda it: result(it, alter_loggers(it, call, validate_only=validates)), loggers
            ),
        ]
    )


async def handle_forwarded(
    request: IncrementalAlterConfigsRequest, call: Call, forward: Callable[[Any], Awaitable[Any]]
) -> IncrementalAlterConfigsResponse:
    rows = await forward_remaining(
        request,
        forward,
        call,
        change_of=change,
        alter_loggers=partial(alter_loggers, call=call, validate_only=request.validate_only),
    )
    return IncrementalAlterConfigsResponse(responses=await each(lambda it: result(*it), rows))


def split(
    resources: Sequence[AlterConfigsResource],
) -> tuple[list[AlterConfigsResource], list[AlterConfigsResource]]:
    """Returns loggers, which are local to the broker, and resources of the controller."""
    return (
        [it for it in resources if it.resource_type == BROKER_LOGGER_RESOURCE],
        [it for it in resources if it.resource_type != BROKER_LOGGER_RESOURCE],
    )


def change(resource: AlterConfigsResource) -> ConfigurationChange:
    return ConfigurationChange(
        resource_type=resource.resource_type,
        name=resource.resource_name,
        operations=[
            ConfigurationOperation(it.name, it.config_operation, it.value)
            for it in resource.configs
        ],
    )


def result(resource: AlterConfigsResource, outcome: Refusal | None) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error_code=ErrorCode.NONE if outcome is None else outcome.code,
        error_message=None if outcome is None else outcome.message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


def failed(
    request: IncrementalAlterConfigsRequest, refusal: Refusal, _call: Call
) -> IncrementalAlterConfigsResponse:
    return IncrementalAlterConfigsResponse(
        responses=[result(it, refusal) for it in request.resources]
    )
