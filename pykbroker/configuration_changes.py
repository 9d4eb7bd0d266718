"""Decides the properties of a resource after AlterConfigs or IncrementalAlterConfigs.

The controller decides with them, and a broker whose controller is another process validates changes
of its own properties before it forwards them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.controller_access import (
    ConfigurationChange,
    ConfigurationOperation,
    ConfigurationReplacement,
)
from pykbroker.metadata.effective_settings import CLUSTER_WIDE
from pykbroker.metadata.image import GROUP_RESOURCE, TOPIC_RESOURCE
from pykbroker.settings import (
    GROUP,
    TOPIC,
    AlterOperation,
    altered_list,
    dynamic_row,
    refuse_broker_operation,
    refuse_broker_properties,
    refuse_group_operation,
    refuse_group_overrides,
    refuse_topic_operation,
    refuse_topic_overrides,
)
from pykbroker.settings.property import shown
from pykbroker_protocol.errors import ErrorCode, Refusal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pykbroker.settings import Settings

AnyChange = ConfigurationChange | ConfigurationReplacement


def values_after(change: AnyChange, before: Mapping[str, str]) -> dict[str, str] | Refusal:
    """Returns all values of the resource; `refuse_values` validates them."""
    if isinstance(change, ConfigurationReplacement):
        return _replaced(change)
    return _altered(change, before)


def refuse_form(change: AnyChange) -> Refusal | None:
    """Rejects repeated names and missing values."""
    if isinstance(change, ConfigurationReplacement):
        names = [name for name, _ in change.values]
        nulls = [name for name, value in change.values if value is None]
    else:
        operations = [ConfigurationOperation(*it) for it in change.operations]
        names = [it.name for it in operations]
        nulls = [
            it.name
            for it in operations
            if it.value is None and it.operation != AlterOperation.DELETE
        ]
    return _refuse_twice(names) or _refuse_nulls(nulls)


def _altered(change: ConfigurationChange, before: Mapping[str, str]) -> dict[str, str] | Refusal:
    refusal = refuse_form(change)
    if refusal is not None:
        return refusal
    after = dict(before)
    for name, number, value in change.operations:
        try:
            operation = AlterOperation(number)
        except ValueError:
            return invalid_request(f"Unknown operation type {number}")
        refusal = _refuse_operation(change.resource_type, operation, name)
        if refusal is not None:
            return refusal
        if operation is AlterOperation.DELETE:
            after.pop(name, None)
        elif operation is AlterOperation.SET:
            after[name] = value or ""
        else:
            current = before.get(name, _default_text(change.resource_type, name))
            after[name] = altered_list(operation, current, value or "")
    return after


def _replaced(replacement: ConfigurationReplacement) -> dict[str, str] | Refusal:
    refusal = refuse_form(replacement)
    if refusal is not None:
        return refusal
    return {name: value for name, value in replacement.values if value is not None}


def _refuse_twice(names: Sequence[str]) -> Refusal | None:
    if len(set(names)) == len(names):
        return None
    return invalid_request("Error due to duplicate config keys")


def _refuse_nulls(names: Sequence[str]) -> Refusal | None:
    if not names:
        return None
    return invalid_request(f"Null value not supported for : {','.join(names)}")


def _refuse_operation(kind: int, operation: AlterOperation, name: str) -> Refusal | None:
    if kind == TOPIC_RESOURCE:
        return _invalid_config(refuse_topic_operation(operation, name))
    if kind == GROUP_RESOURCE:
        return _invalid_config(refuse_group_operation(operation, name))
    problem = refuse_broker_operation(operation, name)
    return invalid_request(problem) if problem else None


def refuse_values(
    resource: tuple[int, str], values: Mapping[str, str], settings: Settings
) -> Refusal | None:
    kind, name = resource
    if kind == TOPIC_RESOURCE:
        return _invalid_config(refuse_topic_overrides(settings, values))
    if kind == GROUP_RESOURCE:
        return _invalid_config(refuse_group_overrides(settings, values))
    problem = refuse_broker_properties(settings, values, cluster_wide=name == CLUSTER_WIDE)
    return invalid_request(problem) if problem else None


def refuse_broker_name(name: str, node_id: int) -> Refusal | None:
    if name == CLUSTER_WIDE:
        return None
    try:
        broker_id = int(name)
    except ValueError:
        return invalid_request(f"Node id must be an integer, but it is: {name}")
    if broker_id != node_id:
        return invalid_request(
            f"Unexpected broker id, expected {node_id}, but received {broker_id}"
        )
    return None


def _default_text(kind: int, name: str) -> str | None:
    table = {TOPIC_RESOURCE: TOPIC, GROUP_RESOURCE: GROUP}.get(kind)
    row = dynamic_row(name) if table is None else table.get(name)
    return shown(row.default) if row else None


def _invalid_config(problem: str | None) -> Refusal | None:
    return Refusal(ErrorCode.INVALID_CONFIG, problem) if problem else None


def invalid_request(message: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_REQUEST, message)
