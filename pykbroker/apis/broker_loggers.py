"""Loggers of this broker as config resources; changed levels are not stored."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.settings import AlterOperation
from pykbroker.telemetry.loggers import (
    LEVEL_NAMES,
    ROOT,
    inherit_level,
    logger_levels,
    logger_names,
    set_level,
)
from pykbroker_protocol.errors import ErrorCode, Refusal
from pykbroker_protocol.messages.describe_configs import (
    DescribeConfigsResourceResult,
    DescribeConfigsResult,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pykbroker.apis.node import Call
    from pykbroker_protocol.messages.describe_configs import DescribeConfigsResource
    from pykbroker_protocol.messages.incremental_alter_configs import (
        AlterableConfig,
        AlterConfigsResource,
    )

BROKER_LOGGER_RESOURCE = 8
DYNAMIC_BROKER_LOGGER = 6
"""The config source of levels in DescribeConfigs."""
UNKNOWN_TYPE = 0
"""The config type of levels, like in Apache Kafka."""


def described_loggers(resource: DescribeConfigsResource, call: Call) -> DescribeConfigsResult:
    refusal = refuse_name(resource.resource_name, call)
    keys = resource.configuration_keys
    levels = {} if refusal else logger_levels()
    return DescribeConfigsResult(
        error_code=refusal.code if refusal else ErrorCode.NONE,
        error_message=refusal.message if refusal else None,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=[
            DescribeConfigsResourceResult(
                name=name,
                value=level,
                read_only=False,
                config_source=DYNAMIC_BROKER_LOGGER,
                is_sensitive=False,
                synonyms=(),
                config_type=UNKNOWN_TYPE,
                documentation=None,
            )
            for name, level in levels.items()
            if not keys or name in keys
        ],
    )


def alter_loggers(
    resource: AlterConfigsResource, call: Call, *, validate_only: bool
) -> Refusal | None:
    """Applies all changes or none."""
    refusal = refuse_name(resource.resource_name, call) or refuse_changes(resource.configs)
    if refusal is not None or validate_only:
        return refusal
    for change in resource.configs:
        if change.config_operation == AlterOperation.SET:
            set_level(change.name, change.value or "")
        else:
            inherit_level(change.name)
    return None


def refuse_name(name: str, call: Call) -> Refusal | None:
    """Rejects other brokers: a broker has only its own loggers."""
    if name == str(call.node.node_id):
        return None
    return Refusal(
        ErrorCode.INVALID_REQUEST,
        f"Unexpected broker id, expected {call.node.node_id}, but received {name}",
    )


def refuse_changes(changes: Sequence[AlterableConfig]) -> Refusal | None:
    if len({it.name for it in changes}) < len(changes):
        return Refusal(ErrorCode.INVALID_REQUEST, "The request contains a logger twice.")
    known = set(logger_names())
    return next(filter(None, (refuse_change(it, known) for it in changes)), None)


def refuse_change(change: AlterableConfig, known: set[str]) -> Refusal | None:
    if change.config_operation not in (AlterOperation.SET, AlterOperation.DELETE):
        return Refusal(ErrorCode.INVALID_REQUEST, "The level of a logger is not a list.")
    if change.name not in known:
        return Refusal(ErrorCode.INVALID_CONFIG, f"Logger {change.name} does not exist!")
    if change.config_operation == AlterOperation.DELETE:
        at_root = change.name == ROOT
        refusal = Refusal(ErrorCode.INVALID_REQUEST, "The root logger must have a level.")
        return refusal if at_root else None
    if change.value is None:
        return Refusal(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {change.name}")
    if change.value not in LEVEL_NAMES:
        return Refusal(
            ErrorCode.INVALID_CONFIG,
            f"{change.value!r} is not a log level, use one of {', '.join(LEVEL_NAMES)}",
        )
    return None
