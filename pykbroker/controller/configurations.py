"""Decides AlterConfigs and IncrementalAlterConfigs of topics, groups and brokers."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from pykbroker.configuration_changes import (
    AnyChange,
    invalid_request,
    refuse_broker_name,
    refuse_values,
    values_after,
)
from pykbroker.controller.decision import Decision, bounded
from pykbroker.metadata.image import BROKER_RESOURCE, GROUP_RESOURCE, TOPIC_RESOURCE
from pykbroker.metadata.topic_names import refuse_name
from pykbroker_protocol.errors import ErrorCode, Refusal
from pykbroker_protocol.metadata.topics import ConfigRecord

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pykbroker.controller_access import ConfigurationChange, ConfigurationReplacement
    from pykbroker.metadata.image import ClusterImage
    from pykbroker.settings import Settings
    from pykbroker.slices import Slices
    from pykbroker_protocol.message import Message

RESOURCES_PER_SLICE = 32
"""All properties of a resource are validated, which takes long."""


def alter_configurations(
    image: ClusterImage, changes: Sequence[ConfigurationChange], settings: Settings
) -> Slices[Decision[list[Refusal | None]]]:
    return _decide(image, changes, settings)


def replace_configurations(
    image: ClusterImage, replacements: Sequence[ConfigurationReplacement], settings: Settings
) -> Slices[Decision[list[Refusal | None]]]:
    return _decide(image, replacements, settings)


def _decide(
    image: ClusterImage,
    changes: Sequence[AnyChange],
    settings: Settings,
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
            after = refuse_values(resource, after, settings) or after
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
        return invalid_request("Each resource must appear at most once.")
    if kind == TOPIC_RESOURCE:
        return _refuse_topic(image, name)
    if kind == BROKER_RESOURCE:
        return refuse_broker_name(name, node_id)
    if kind == GROUP_RESOURCE:  # a group can be configured before it exists
        return None if name else invalid_request("Default group resources are not allowed.")
    return invalid_request(f"Unknown resource type {kind}")


def _refuse_topic(image: ClusterImage, name: str) -> Refusal | None:
    if not name:
        return invalid_request("Default topic resources are not allowed.")
    refusal = refuse_name(name)
    if refusal is None and name not in image.topics:
        return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
    return refusal


def _records(
    resource: tuple[int, str], before: Mapping[str, str], after: Mapping[str, str]
) -> Iterator[ConfigRecord]:
    kind, resource_name = resource
    for name in (*after, *(gone for gone in before if gone not in after)):
        if after.get(name) != before.get(name):
            yield ConfigRecord(
                resource_type=kind, resource_name=resource_name, name=name, value=after.get(name)
            )
