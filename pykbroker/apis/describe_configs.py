"""DescribeConfigs: returns properties with values, sources and synonyms."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pykbroker.apis.broker_loggers import BROKER_LOGGER_RESOURCE, described_loggers
from pykbroker.apis.slices import Slice, sliced
from pykbroker.metadata.image import BROKER_RESOURCE, GROUP_RESOURCE, TOPIC_RESOURCE
from pykbroker.metadata.topic_names import refuse_name
from pykbroker.settings import (
    describe_broker,
    describe_cluster_default,
    describe_group,
    describe_topic,
)
from pykbroker_protocol.errors import ErrorCode, Refusal
from pykbroker_protocol.messages.describe_configs import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pykbroker.apis.node import Call
    from pykbroker.apis.slices import Slices
    from pykbroker.settings import DescribedProperty
    from pykbroker_protocol.messages.describe_configs import (
        DescribeConfigsRequest,
        DescribeConfigsResource,
    )


@sliced
def handle(request: DescribeConfigsRequest, call: Call) -> Slices[DescribeConfigsResponse]:
    count, results = Slice(), []
    for resource in request.resources:
        described = result(resource, request, call)
        results.append(described)
        if count.is_full(RESOURCE_WEIGHT + len(described.configs)):
            yield
    return DescribeConfigsResponse(results=results)


BROKER_ID = re.compile(r"[+-]?[0-9]{1,9}")

RESOURCE_WEIGHT = 64
"""Elements that a resource counts for in a slice: all its properties are looked up."""


def result(
    resource: DescribeConfigsResource, request: DescribeConfigsRequest, call: Call
) -> DescribeConfigsResult:
    if resource.resource_type == BROKER_LOGGER_RESOURCE:
        return described_loggers(resource, call)
    found = described(resource, call)
    if isinstance(found, Refusal):
        return DescribeConfigsResult(
            error_code=found.code,
            error_message=found.message,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
            configs=(),
        )
    keys = resource.configuration_keys
    return DescribeConfigsResult(
        error_code=ErrorCode.NONE,
        error_message=None,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=[row(it, request) for it in found if not keys or it.name in keys],
    )


def described(
    resource: DescribeConfigsResource, call: Call
) -> Iterable[DescribedProperty] | Refusal:
    if resource.resource_type == TOPIC_RESOURCE:
        return described_topic(resource.resource_name, call)
    if resource.resource_type == BROKER_RESOURCE:
        return described_broker(resource.resource_name, call)
    if resource.resource_type == GROUP_RESOURCE:
        return described_group(resource.resource_name, call)
    return Refusal(
        ErrorCode.INVALID_REQUEST,
        f"Resource type {resource.resource_type} is not supported.",
    )


def described_topic(name: str, call: Call) -> Iterable[DescribedProperty] | Refusal:
    image = call.node.image
    refusal = refuse_name(name)
    if refusal is not None:
        return refusal
    if name not in image.topics:
        return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
    overrides = image.configurations.get((TOPIC_RESOURCE, name), {})
    return describe_topic(call.node.settings, overrides)


def described_broker(name: str, call: Call) -> Iterable[DescribedProperty] | Refusal:
    if not name:
        return describe_cluster_default(call.node.settings)
    if BROKER_ID.fullmatch(name) is None:
        return Refusal(
            ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}"
        )
    if int(name) != call.node.node_id:
        return Refusal(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected broker id, expected {call.node.node_id} or empty string, "
            f"but received {name}",
        )
    return describe_broker(call.node.settings)


def described_group(group_id: str, call: Call) -> Iterable[DescribedProperty] | Refusal:
    if not group_id:
        return Refusal(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
    overrides = call.node.image.configurations.get((GROUP_RESOURCE, group_id), {})
    return describe_group(call.node.settings, overrides)


def row(it: DescribedProperty, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=it.name,
        value=it.value,
        read_only=it.is_read_only,
        config_source=it.source,
        is_sensitive=it.is_sensitive,
        synonyms=[
            DescribeConfigsSynonym(name=synonym.name, value=synonym.value, source=synonym.source)
            for synonym in (it.synonyms if request.include_synonyms else ())
        ],
        config_type=it.type,
        documentation=it.documentation if request.include_documentation else None,
    )
