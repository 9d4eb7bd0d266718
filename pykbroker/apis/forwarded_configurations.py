"""Validates changes of configurations before they are forwarded to the active controller.

The controller does not know the properties of a broker, so this broker validates changes of its own
properties and of the cluster default. Only the remaining resources are forwarded.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from pykbroker.apis.broker_loggers import BROKER_LOGGER_RESOURCE
from pykbroker.apis.slices import each
from pykbroker.client.errors import error_of
from pykbroker.configuration_changes import (
    invalid_request,
    refuse_broker_name,
    refuse_form,
    refuse_values,
    values_after,
)
from pykbroker.metadata.image import BROKER_RESOURCE, GROUP_RESOURCE, TOPIC_RESOURCE
from pykbroker_protocol.errors import ErrorCode, Refusal

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from pykbroker.apis.node import Call
    from pykbroker.configuration_changes import AnyChange

CLIENT_METRICS_RESOURCE = 16
CONTROLLER_TYPES = (TOPIC_RESOURCE, CLIENT_METRICS_RESOURCE, GROUP_RESOURCE)
"""Types of resources that only the controller validates."""
VALIDATION_WEIGHT = 32
"""Elements that a resource counts for in a slice: all its properties are validated."""


async def forward_remaining(
    request: Any,
    forward: Callable[[Any], Awaitable[Any]],
    call: Call,
    *,
    change_of: Callable[[Any], AnyChange],
    alter_loggers: Callable[[Any], Refusal | None] | None = None,
) -> list[tuple[Any, Refusal | None]]:
    """Returns the outcome of each resource in order; None in place of an error for success."""
    times = Counter([(it.resource_type, it.resource_name) for it in request.resources])

    def preprocess(resource: Any) -> tuple[Any, bool, Refusal | None]:
        """Returns the resource, whether it is to be forwarded, and its error."""
        if times[resource.resource_type, resource.resource_name] > 1:
            return resource, False, invalid_request("Each resource must appear at most once.")
        if resource.resource_type == BROKER_LOGGER_RESOURCE and alter_loggers is not None:
            return resource, False, alter_loggers(resource)
        refusal = refuse_locally(change_of(resource), call)
        return resource, refusal is None, refusal

    rows = await each(preprocess, request.resources, weight=VALIDATION_WEIGHT)
    remaining = [resource for resource, is_forwarded, _ in rows if is_forwarded]
    outcomes: Mapping[tuple[int, str], Refusal | None] = {}
    if remaining:
        response = await forward(request.replace(resources=remaining))
        outcomes = {
            (it.resource_type, it.resource_name): (
                Refusal(error_of(it.error_code), it.error_message) if it.error_code else None
            )
            for it in response.responses
        }
    missing = ErrorCode.UNKNOWN_SERVER_ERROR
    return [
        (
            resource,
            outcomes.get(
                (resource.resource_type, resource.resource_name),
                Refusal(missing, missing.sentence),
            )
            if is_forwarded
            else refusal,
        )
        for resource, is_forwarded, refusal in rows
    ]


def refuse_locally(change: AnyChange, call: Call) -> Refusal | None:
    refusal = refuse_form(change)
    if refusal is not None or change.resource_type in CONTROLLER_TYPES:
        return refusal
    if change.resource_type != BROKER_RESOURCE:
        return invalid_request(f"Unknown resource type {change.resource_type}")
    node = call.node
    resource = change.resource_type, change.name
    refusal = refuse_broker_name(change.name, node.node_id)
    if refusal is not None:
        return refusal
    after = values_after(change, node.image.configurations.get(resource, {}))
    return after if isinstance(after, Refusal) else refuse_values(resource, after, node.settings)
