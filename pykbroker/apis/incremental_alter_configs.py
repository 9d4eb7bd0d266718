"""IncrementalAlterConfigs: single properties are set, deleted, appended to or subtracted from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.controller.configurations import ConfigurationChange, ConfigurationOperation
from pykbroker_protocol.errors import ErrorCode, Refusal
from pykbroker_protocol.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)

if TYPE_CHECKING:
    from pykbroker.apis.node import Call
    from pykbroker_protocol.messages.incremental_alter_configs import (
        AlterConfigsResource,
        IncrementalAlterConfigsRequest,
    )


async def handle(
    request: IncrementalAlterConfigsRequest, call: Call
) -> IncrementalAlterConfigsResponse:
    outcomes = await call.node.controller.alter_configurations(
        [change(resource) for resource in request.resources], validate_only=request.validate_only
    )
    return IncrementalAlterConfigsResponse(
        responses=[
            result(resource, outcome)
            for resource, outcome in zip(request.resources, outcomes, strict=True)
        ]
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
