"""IncrementalAlterConfigs: single properties are set, deleted, appended to or subtracted from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.apis.broker_loggers import BROKER_LOGGER_RESOURCE, alter_loggers
from pykbroker.controller.configurations import ConfigurationChange, ConfigurationOperation
from pykbroker_protocol.errors import ErrorCode, Refusal
from pykbroker_protocol.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pykbroker.apis.node import Call
    from pykbroker_protocol.messages.incremental_alter_configs import (
        AlterConfigsResource,
        IncrementalAlterConfigsRequest,
    )


async def handle(
    request: IncrementalAlterConfigsRequest, call: Call
) -> IncrementalAlterConfigsResponse:
    loggers, others = split(request.resources)
    outcomes = await call.node.controller.alter_configurations(
        [change(resource) for resource in others], validate_only=request.validate_only
    )
    return IncrementalAlterConfigsResponse(
        responses=[
            *(result(it, outcome) for it, outcome in zip(others, outcomes, strict=True)),
            *(
                result(it, alter_loggers(it, call, validate_only=request.validate_only))
                for it in loggers
            ),
        ]
    )


def split(
    resources: Iterable[AlterConfigsResource],
) -> tuple[list[AlterConfigsResource], list[AlterConfigsResource]]:
    """This broker's loggers, which are its own affair, and what the cluster decides on."""
    loggers: list[AlterConfigsResource] = []
    others: list[AlterConfigsResource] = []
    for it in resources:
        (loggers if it.resource_type == BROKER_LOGGER_RESOURCE else others).append(it)
    return loggers, others


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
