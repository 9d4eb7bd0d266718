"""ListConfigResources: lists resources that have or can have configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.apis.broker_loggers import BROKER_LOGGER_RESOURCE
from pykbroker.metadata.image import BROKER_RESOURCE, GROUP_RESOURCE, TOPIC_RESOURCE
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesResponse,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pykbroker.apis.node import Call
    from pykbroker_protocol.messages.list_config_resources import ListConfigResourcesRequest

CLIENT_METRICS_RESOURCE = 16
KINDS_SINCE_VERSION = 1
"""Version 0 lists only client metrics subscriptions."""

KINDS = (
    TOPIC_RESOURCE,
    BROKER_RESOURCE,
    BROKER_LOGGER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
)


def handle(request: ListConfigResourcesRequest, call: Call) -> ListConfigResourcesResponse:
    kinds: Iterable[int] = (CLIENT_METRICS_RESOURCE,)
    if call.version >= KINDS_SINCE_VERSION:
        kinds = dict.fromkeys(request.resource_types or KINDS)
    if not set(kinds) <= set(KINDS):
        return ListConfigResourcesResponse(
            error_code=ErrorCode.UNSUPPORTED_VERSION, config_resources=()
        )
    return ListConfigResourcesResponse(
        error_code=ErrorCode.NONE,
        config_resources=[
            ConfigResource(resource_name=name, resource_type=kind)
            for kind in kinds
            for name in names_of(kind, call)
        ],
    )


def names_of(kind: int, call: Call) -> Iterable[str]:
    """Returns all topics and brokers, and the other resources that have configuration."""
    image = call.node.image
    if kind == TOPIC_RESOURCE:
        return list(image.topics)
    if kind in (BROKER_RESOURCE, BROKER_LOGGER_RESOURCE):
        reachable = (it for it in image.brokers.values() if call.peer.listener in it.listeners)
        return [str(it.id) for it in reachable if not it.fenced]
    return [name for found, name in image.configurations if found == kind]
