"""Decides AlterConfigs and IncrementalAlterConfigs of topics, groups and brokers."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from pykbroker.controller.decision import Decision, bounded
from pykbroker.controller_access import (
    ConfigurationChange,
    ConfigurationOperation,
    ConfigurationReplacement,
)
from pykbroker.metadata.effective_settings import CLUSTER_WIDE
from pykbroker.metadata.image import BROKER_RESOURCE, GROUP_RESOURCE, TOPIC_RESOURCE
from pykbroker.metadata.topic_names import refuse_name
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
from pykbroker_protocol.metadata.topics import ConfigRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pykbroker.metadata.image import ClusterImage
    from pykbroker.settings import Settings
    from pykbroker.slices import Slices
    from pykbroker_protocol.message import Message

RESOURCES_PER_SLICE = 32
"""All properties of a resource are validated, which takes long."""


AnyChange = ConfigurationChange | ConfigurationReplacement


def alter_configurations(
    image: ClusterImage, changes: Sequence[ConfigurationChange], settings: Settings
) -> Slices[Decision[list[Refusal | None]]]:
    return _decide(image, changes, settings, _altered)


def replace_configurations(
    image: ClusterImage, replacements: Sequence[ConfigurationReplacement], settings: Settings
) -> Slices[Decision[list[Refusal | None]]]:
    return _decide(image, replacements, settings, _replaced)


def _decide(
    image: ClusterImage,
    changes: Sequence[AnyChange],
    settings: Settings,
    values_after: Callable[..., dict[str, str] | Refusal],
) -> Slices[Decision[list[Refusal | None]]]:
    """Decides each resource by itself; a refused resource keeps its values."""
    times = Counter([(change.resource_type, change.name) for change in changes])
    records: list[Message] = []
    outcomes: list[Refusal | None] = []
    for count, change in enumerate(changes):
        if count % RESOURCES_PER_SLICE == RESOURCES_PER_SLICE - 1:
            yield
        resource = change.resource_type, change.name
        before = image.configurations.get(resource, {})
        refusal = _refuse_resource(image, resource, settings.node_id, times[resource])
        after = refusal or values_after(change, before)
        if not isinstance(after, Refusal):
            after = _refuse_values(resource, after, settings) or after
        if isinstance(after, Refusal):
            outcomes.append(after)
        else:
            records += _records(resource, before, after)
            outcomes.append(None)
    return bounded(records, outcomes)


def _refuse_resource(
    image: ClusterImage, resource: tuple[int, str], node_id: int, times: int
) -> Refusal | None:
    kind, name = resource
    if times > 1:
        return _invalid_request("Each resource must appear at most once.")
    if kind == TOPIC_RESOURCE:
        return _refuse_topic(image, name)
    if kind == BROKER_RESOURCE:
        return _refuse_broker(name, node_id)
    if kind == GROUP_RESOURCE:  # a group can be configured before it exists
        return None if name else _invalid_request("Default group resources are not allowed.")
    return _invalid_request(f"Unknown resource type {kind}")


def _refuse_topic(image: ClusterImage, name: str) -> Refusal | None:
    if not name:
        return _invalid_request("Default topic resources are not allowed.")
    refusal = refuse_name(name)
    if refusal is None and name not in image.topics:
        return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
    return refusal


def _refuse_broker(name: str, node_id: int) -> Refusal | None:
    if name == CLUSTER_WIDE:
        return None
    try:
        broker_id = int(name)
    except ValueError:
        return _invalid_request(f"Node id must be an integer, but it is: {name}")
    if broker_id != node_id:
        return _invalid_request(
            f"Unexpected broker id, expected {node_id}, but received {broker_id}"
        )
    return None


def _altered(change: ConfigurationChange, before: Mapping[str, str]) -> dict[str, str] | Refusal:
    operations = [ConfigurationOperation(*it) for it in change.operations]
    refusal = _refuse_twice([it.name for it in operations]) or _refuse_nulls(
        [it.name for it in operations if it.value is None and it.operation != AlterOperation.DELETE]
    )
    if refusal is not None:
        return refusal
    after = dict(before)
    for name, number, value in operations:
        try:
            operation = AlterOperation(number)
        except ValueError:
            return _invalid_request(f"Unknown operation type {number}")
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


def _replaced(
    replacement: ConfigurationReplacement, _: Mapping[str, str]
) -> dict[str, str] | Refusal:
    nulls = [name for name, value in replacement.values if value is None]
    return (
        _refuse_twice([name for name, _ in replacement.values])
        or _refuse_nulls(nulls)
        or {name: value for name, value in replacement.values if value is not None}
    )


def _refuse_twice(names: Sequence[str]) -> Refusal | None:
    if len(set(names)) == len(names):
        return None
    return _invalid_request("Error due to duplicate config keys")


def _refuse_nulls(names: Sequence[str]) -> Refusal | None:
    if not names:
        return None
    return _invalid_request(f"Null value not supported for : {','.join(names)}")


def _refuse_operation(kind: int, operation: AlterOperation, name: str) -> Refusal | None:
    if kind == TOPIC_RESOURCE:
        return _invalid_config(refuse_topic_operation(operation, name))
    if kind == GROUP_RESOURCE:
        return _invalid_config(refuse_group_operation(operation, name))
    problem = refuse_broker_operation(operation, name)
    return _invalid_request(problem) if problem else None


def _refuse_values(
    resource: tuple[int, str], values: Mapping[str, str], settings: Settings
) -> Refusal | None:
    kind, name = resource
    if kind == TOPIC_RESOURCE:
        return _invalid_config(refuse_topic_overrides(settings, values))
    if kind == GROUP_RESOURCE:
        return _invalid_config(refuse_group_overrides(settings, values))
    problem = refuse_broker_properties(settings, values, cluster_wide=name == CLUSTER_WIDE)
    return _invalid_request(problem) if problem else None


def _records(
    resource: tuple[int, str], before: Mapping[str, str], after: Mapping[str, str]
) -> Iterator[ConfigRecord]:
    kind, resource_name = resource
    for name in (*after, *(gone for gone in before if gone not in after)):
        if after.get(name) != before.get(name):
            yield ConfigRecord(
                resource_type=kind, resource_name=resource_name, name=name, value=after.get(name)
            )


def _default_text(kind: int, name: str) -> str | None:
    table = {TOPIC_RESOURCE: TOPIC, GROUP_RESOURCE: GROUP}.get(kind)
    row = dynamic_row(name) if table is None else table.get(name)
    return shown(row.default) if row else None


def _invalid_config(problem: str | None) -> Refusal | None:
    return Refusal(ErrorCode.INVALID_CONFIG, problem) if problem else None


def _invalid_request(message: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_REQUEST, message)
