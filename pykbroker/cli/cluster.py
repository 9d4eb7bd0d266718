"""The commands `cluster describe` and `api-versions`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pykbroker.cli.cluster_command import cluster_command
from pykbroker.cli.output import bytes_text, counted, print_json, table
from pykbroker.client.errors import raise_if_error
from pykbroker_protocol.api_keys import ApiKey
from pykbroker_protocol.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from pykbroker_protocol.messages.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable

    from pykbroker.client.cluster_client import ClusterClient
    from pykbroker_protocol.messages.api_versions import ApiVersionsResponse
    from pykbroker_protocol.messages.describe_cluster import DescribeClusterBroker
    from pykbroker_protocol.messages.metadata import MetadataResponseTopic

BROKER_HEADINGS = ("BROKER", "ADDRESS", "RACK", "STATE", "LEADERS", "REPLICAS", "DISK")


@cluster_command
async def describe(options: Namespace, client: ClusterClient) -> None:
    metadata = await client.metadata(None)
    cluster = await client.request(
        DescribeClusterRequest(include_cluster_authorized_operations=False), DescribeClusterResponse
    )
    raise_if_error(cluster.error_code, cluster.error_message)
    document = {
        "cluster_id": cluster.cluster_id,
        "controller": cluster.controller_id,
        "topics": len(metadata.topics),
        "partitions": sum(len(topic.partitions) for topic in metadata.topics),
        "features": features_of((await client.broker()).offered),
        "brokers": [
            await broker_document(client, broker, metadata.topics)
            for broker in sorted(cluster.brokers, key=lambda it: it.broker_id)
        ],
    }
    if options.json:
        print_json(document)
    else:
        print(cluster_text(document))


def features_of(offers: ApiVersionsResponse) -> dict[str, int]:
    return {it.name: it.max_version_level for it in offers.finalized_features}


async def broker_document(
    client: ClusterClient, broker: DescribeClusterBroker, topics: Iterable[MetadataResponseTopic]
) -> dict[str, Any]:
    partitions = [partition for topic in topics for partition in topic.partitions]
    return {
        "id": broker.broker_id,
        "host": broker.host,
        "port": broker.port,
        "rack": broker.rack,
        "fenced": broker.is_fenced,
        "leads": sum(it.leader_id == broker.broker_id for it in partitions),
        "replicas": sum(broker.broker_id in it.replica_nodes for it in partitions),
        "log_dirs": [] if broker.is_fenced else await log_dirs(client, broker.broker_id),
    }


async def log_dirs(client: ClusterClient, node_id: int) -> list[dict[str, Any]]:
    """Returns the log directories of a broker with the size of their partitions."""
    if not (await client.broker()).offers(ApiKey.DESCRIBE_LOG_DIRS):
        return []
    response = await client.request(
        DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse, node_id=node_id
    )
    raise_if_error(response.error_code)
    return [
        {
            "path": directory.log_dir,
            "bytes": sum(
                it.partition_size for topic in directory.topics for it in topic.partitions
            ),
            "usable_bytes": directory.usable_bytes if directory.usable_bytes >= 0 else None,
        }
        for directory in response.results
    ]


def cluster_text(cluster: dict[str, Any]) -> str:
    features = ", ".join(f"{name} {level}" for name, level in sorted(cluster["features"].items()))
    topics = f"{counted(cluster['topics'], 'topic')}, {counted(cluster['partitions'], 'partition')}"
    lines = [
        f"cluster     {cluster['cluster_id']}",
        f"controller  {cluster['controller']}",
        f"topics      {topics}",
        f"features    {features or '-'}",
        table(BROKER_HEADINGS, map(broker_row, cluster["brokers"])),
    ]
    return "\n".join(lines)


def broker_row(broker: dict[str, Any]) -> tuple[object, ...]:
    used = sum(directory["bytes"] for directory in broker["log_dirs"])
    return (
        broker["id"],
        f"{broker['host']}:{broker['port']}",
        broker["rack"],
        "fenced" if broker["fenced"] else "active",
        broker["leads"],
        broker["replicas"],
        bytes_text(used) if broker["log_dirs"] else None,
    )


@cluster_command
async def api_versions(options: Namespace, client: ClusterClient) -> None:
    offered = (await client.broker()).offered
    documents = [
        {
            "key": api.api_key,
            "name": api_name(api.api_key),
            "min_version": api.min_version,
            "max_version": api.max_version,
        }
        for api in sorted(offered.api_keys, key=lambda api: api.api_key)
    ]
    if options.json:
        print_json({"apis": documents, "features": feature_documents(offered)})
        return
    rows = [(it["key"], it["name"], it["min_version"], it["max_version"]) for it in documents]
    print(table(("KEY", "API", "MIN", "MAX"), rows))
    features = [tuple(it.values()) for it in feature_documents(offered)]
    if features:
        print("\n" + table(("FEATURE", "MIN", "MAX", "FINALIZED"), features))


def api_name(api_key: int) -> str | None:
    """Returns the name in the protocol, such as ApiVersions; None for an unknown key."""
    try:
        words = ApiKey(api_key).name.split("_")
    except ValueError:
        return None
    return "".join(word.capitalize() for word in words)


def feature_documents(offers: ApiVersionsResponse) -> list[dict[str, Any]]:
    finalized = features_of(offers)
    return [
        {
            "name": it.name,
            "min_version": it.min_version,
            "max_version": it.max_version,
            "finalized": finalized.get(it.name),
        }
        for it in sorted(offers.supported_features, key=lambda it: it.name)
    ]
