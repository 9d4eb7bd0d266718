"""The commands `configs describe` and `configs alter`."""

from __future__ import annotations

from enum import Enum, IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from pykbroker.cli.cluster_command import cluster_command, error_line
from pykbroker.cli.command_line.values import INT32_MAX, is_between
from pykbroker.cli.failure import CannotBegin, raise_if_any
from pykbroker.cli.output import print_json, table
from pykbroker.client.errors import only, raise_if_error
from pykbroker_protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from pykbroker_protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

    from pykbroker.client.cluster_client import ClusterClient
    from pykbroker_protocol.messages.describe_configs import DescribeConfigsResourceResult

HIDDEN = "(hidden)"
ALL_BROKERS = "default"


class ResourceType(IntEnum):
    TOPIC = 2
    BROKER = 4
    GROUP = 32


class Resource(NamedTuple):
    type: ResourceType
    name: str

    @property
    def node_id(self) -> int | None:
        """The broker to send the request to: only a broker knows its own properties."""
        return int(self.name) if self.type is ResourceType.BROKER and self.name else None

    def __str__(self) -> str:
        return self.name or ALL_BROKERS


class Source(Enum):
    """The source of a value, with the numbers of DescribeConfigs."""

    TOPIC = 1
    BROKER = 2
    ALL_BROKERS = 3
    FILE = 4
    DEFAULT = 5
    BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8
    UNKNOWN = -1

    @property
    def text(self) -> str:
        return self.name.lower().replace("_", " ")


class Operation(IntEnum):
    SET = 0
    UNSET = 1
    APPEND = 2
    SUBTRACT = 3


class Change(NamedTuple):
    operation: Operation
    key: str
    value: str | None = None


def topic_resource(name: str) -> Resource:
    return Resource(ResourceType.TOPIC, name)


def resource_of(options: Namespace) -> Resource:
    if options.kind == "topic":
        return topic_resource(options.name)
    if options.kind == "group":
        return Resource(ResourceType.GROUP, options.name)
    if options.name == ALL_BROKERS:
        return Resource(ResourceType.BROKER, "")
    if not is_between(options.name, 0, INT32_MAX):
        raise CannotBegin(f"{options.name!r} is not a broker id and not {ALL_BROKERS!r}")
    return Resource(ResourceType.BROKER, options.name)


@cluster_command
async def describe(options: Namespace, client: ClusterClient) -> None:
    resource = resource_of(options)
    found = await describe_configs(client, resource, options.keys, is_documented=options.explain)
    if not options.all and not options.keys:
        found = [config for config in found if is_changed(config)]
    documents = [config_document(it) for it in sorted(found, key=lambda config: config.name)]
    if options.json:
        print_json(documents)
    elif documents:
        print(configs_text(documents, is_documented=options.explain))
    else:
        print(f"{options.kind} {resource}: all properties have their default (--all shows them)")


async def describe_configs(
    client: ClusterClient,
    resource: Resource,
    keys: Sequence[str] = (),
    *,
    is_documented: bool = False,
) -> Sequence[DescribeConfigsResourceResult]:
    requested = DescribeConfigsResource(
        resource_type=resource.type,
        resource_name=resource.name,
        configuration_keys=list(keys) or None,
    )
    request = DescribeConfigsRequest(resources=[requested], include_documentation=is_documented)
    response = await client.request(request, DescribeConfigsResponse, node_id=resource.node_id)
    result = only(response.results, "results")
    raise_if_error(result.error_code, result.error_message)
    return result.configs


async def changed_configs(client: ClusterClient, resource: Resource) -> dict[str, str | None]:
    """Returns the properties that were set for this topic or broker."""
    own = Source.TOPIC if resource.type is ResourceType.TOPIC else Source.BROKER
    found = await describe_configs(client, resource)
    return {it.name: it.value for it in found if it.config_source == own.value}


def is_changed(config: DescribeConfigsResourceResult) -> bool:
    return source_of(config) is not Source.DEFAULT


def source_of(config: DescribeConfigsResourceResult) -> Source:
    try:
        return Source(config.config_source)
    except ValueError:
        return Source.UNKNOWN


def config_document(config: DescribeConfigsResourceResult) -> dict[str, Any]:
    return {
        "name": config.name,
        "value": config.value,
        "source": source_of(config).text,
        "read_only": config.read_only,
        "sensitive": config.is_sensitive,
        "documentation": config.documentation or None,
    }


def configs_text(documents: list[dict[str, Any]], *, is_documented: bool) -> str:
    rows = [
        (it["name"], HIDDEN if it["sensitive"] else it["value"], it["source"]) for it in documents
    ]
    headings = ("PROPERTY", "VALUE", "SOURCE")
    if not is_documented:
        return table(headings, rows)
    documented = [(*row, it["documentation"]) for row, it in zip(rows, documents, strict=True)]
    return table((*headings, "DOCUMENTATION"), documented)


@cluster_command
async def alter(options: Namespace, client: ClusterClient) -> None:
    resource = resource_of(options)
    changes = changes_of(options)
    if not changes:
        raise CannotBegin("specify at least one of --set, --unset, --append, --subtract")
    errors = await alter_configs(client, [resource], changes, is_dry_run=options.dry_run)
    raise_if_any(errors)
    verb = "would be altered" if options.dry_run else "altered"
    if options.json:
        print_json([change_document(change) for change in changes])
    else:
        print(f"{options.kind} {resource}: {', '.join(it.key for it in changes)} {verb}")


def changes_of(options: Namespace) -> list[Change]:
    return [
        *(Change(Operation.SET, key, value) for key, value in options.set),
        *(Change(Operation.UNSET, key) for key in options.unset),
        *(Change(Operation.APPEND, key, value) for key, value in options.append),
        *(Change(Operation.SUBTRACT, key, value) for key, value in options.subtract),
    ]


def change_document(change: Change) -> dict[str, Any]:
    return {
        "name": change.key,
        "operation": change.operation.name.lower(),
        "value": change.value,
    }


async def alter_configs(
    client: ClusterClient,
    resources: Sequence[Resource],
    changes: Sequence[Change],
    *,
    is_dry_run: bool,
) -> list[str]:
    """Applies the changes to each resource; returns a line per error."""
    configs = [
        AlterableConfig(name=it.key, config_operation=it.operation, value=it.value)
        for it in changes
    ]
    altered = [
        AlterConfigsResource(resource_type=it.type, resource_name=it.name, configs=configs)
        for it in resources
    ]
    response = await client.request(
        IncrementalAlterConfigsRequest(resources=altered, validate_only=is_dry_run),
        IncrementalAlterConfigsResponse,
        node_id=resources[0].node_id,
    )
    return [
        error_line(it.resource_name or ALL_BROKERS, it.error_code, it.error_message)
        for it in response.responses
        if it.error_code
    ]
