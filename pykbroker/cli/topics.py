"""The commands `topics create`, `list`, `describe`, `alter` and `delete`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pykbroker.cli.cluster_command import cluster_command, error_line
from pykbroker.cli.configs import Change, Operation, alter_configs, changed_configs, topic_resource
from pykbroker.cli.failure import CannotBegin, raise_if_any
from pykbroker.cli.output import counted, print_json, table, uuid_text
from pykbroker.client.log_offsets import EARLIEST, LATEST, log_offsets
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from pykbroker_protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from pykbroker_protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

if TYPE_CHECKING:
    from argparse import Namespace

    from pykbroker.client.cluster_client import ClusterClient
    from pykbroker_protocol.messages.create_topics import CreatableTopicResult
    from pykbroker_protocol.messages.metadata import (
        MetadataResponsePartition,
        MetadataResponseTopic,
    )

PARTITION_HEADINGS = ("PARTITION", "LEADER", "EPOCH", "REPLICAS", "ISR", "START", "END")


@cluster_command
async def create(options: Namespace, client: ClusterClient) -> None:
    response = await client.request(
        CreateTopicsRequest(
            topics=[new_topic(name, options) for name in options.names],
            timeout_ms=client.timeout_ms,
            validate_only=options.dry_run,
        ),
        CreateTopicsResponse,
    )
    accepted = {ErrorCode.NONE}
    if options.if_not_exists:
        accepted.add(ErrorCode.TOPIC_ALREADY_EXISTS)
    created = [topic for topic in response.topics if topic.error_code == ErrorCode.NONE]
    report_created(created, options)
    raise_if_any(
        error_line(topic.name, topic.error_code, topic.error_message)
        for topic in response.topics
        if topic.error_code not in accepted
    )


def new_topic(name: str, options: Namespace) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=options.partitions,
        replication_factor=options.replicas,
        assignments=(),
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in options.settings],
    )


def report_created(created: list[CreatableTopicResult], options: Namespace) -> None:
    if options.json:
        print_json([created_document(topic) for topic in created])
        return
    verb = "would be created" if options.dry_run else "created"
    for topic in created:
        partitions = counted(topic.num_partitions, "partition")
        print(f"{topic.name}: {verb}, {partitions}, {counted(topic.replication_factor, 'replica')}")


def created_document(topic: CreatableTopicResult) -> dict[str, Any]:
    return {
        "name": topic.name,
        "id": uuid_text(topic.topic_id),
        "partitions": topic.num_partitions,
        "replicas": topic.replication_factor,
    }


@cluster_command
async def list_all(options: Namespace, client: ClusterClient) -> None:
    metadata = await client.metadata(None)
    topics = [topic for topic in metadata.topics if options.internal or not topic.is_internal]
    topics.sort(key=lambda topic: topic.name or "")
    if options.names:
        for topic in topics:
            print(topic.name)
    elif options.json:
        print_json([summary(topic) for topic in topics])
    else:
        rows = [(*list(summary(topic).values())[:-1],) for topic in topics]
        print(table(("TOPIC", "PARTITIONS", "REPLICAS", "ID"), rows))


def summary(topic: MetadataResponseTopic) -> dict[str, Any]:
    return {
        "name": topic.name,
        "partitions": len(topic.partitions),
        "replicas": max((len(it.replica_nodes) for it in topic.partitions), default=0),
        "id": uuid_text(topic.topic_id),
        "internal": topic.is_internal,
    }


@cluster_command
async def describe(options: Namespace, client: ClusterClient) -> None:
    metadata = await client.metadata(options.names)
    documents = [
        await described(client, topic) for topic in metadata.topics if not topic.error_code
    ]
    if options.json:
        print_json(documents)
    else:
        print("\n\n".join(map(described_text, documents)), end="\n" if documents else "")
    raise_if_any(
        error_line(topic.name or "", topic.error_code)
        for topic in metadata.topics
        if topic.error_code
    )


async def described(client: ClusterClient, topic: MetadataResponseTopic) -> dict[str, Any]:
    starts = await log_offsets(client, topic, EARLIEST)
    ends = await log_offsets(client, topic, LATEST)
    configs = await changed_configs(client, topic_resource(topic.name or ""))
    partitions = sorted(topic.partitions, key=lambda it: it.partition_index)
    return {
        **summary(topic),
        "configs": configs,
        "partitions": [described_partition(it, starts, ends) for it in partitions],
    }


def described_partition(
    partition: MetadataResponsePartition, starts: dict[int, int], ends: dict[int, int]
) -> dict[str, Any]:
    index = partition.partition_index
    return {
        "partition": index,
        "leader": partition.leader_id if partition.leader_id >= 0 else None,
        "leader_epoch": partition.leader_epoch,
        "replicas": list(partition.replica_nodes),
        "in_sync": list(partition.isr_nodes),
        "start_offset": starts.get(index),
        "end_offset": ends.get(index),
    }


def described_text(topic: dict[str, Any]) -> str:
    partitions = topic["partitions"]
    head = [f"topic    {topic['name']}", f"id       {topic['id']}"]
    configs = [f"{key}={value}" for key, value in topic["configs"].items()]
    head += [f"{'configs' if i == 0 else '':9}{text}" for i, text in enumerate(configs)]
    rows = [tuple(partition.values()) for partition in partitions]
    return "\n".join((*head, table(PARTITION_HEADINGS, rows)))


@cluster_command
async def alter(options: Namespace, client: ClusterClient) -> None:
    changes = [Change(Operation.SET, key, value) for key, value in options.settings]
    changes += [Change(Operation.UNSET, key) for key in options.unset]
    if options.partitions is None and not changes:
        raise CannotBegin("specify at least one of --partitions, --set, --unset")
    errors = []
    if options.partitions is not None:
        errors += await add_partitions(options, client)
    if changes:
        resources = [topic_resource(name) for name in options.names]
        errors += await alter_configs(client, resources, changes, is_dry_run=options.dry_run)
    raise_if_any(errors)
    report_names(options, options.names, "would be altered" if options.dry_run else "altered")


async def add_partitions(options: Namespace, client: ClusterClient) -> list[str]:
    """Sends CreatePartitions; returns a line per error."""
    response = await client.request(
        CreatePartitionsRequest(
            topics=[
                CreatePartitionsTopic(name=name, count=options.partitions, assignments=None)
                for name in options.names
            ],
            timeout_ms=client.timeout_ms,
            validate_only=options.dry_run,
        ),
        CreatePartitionsResponse,
    )
    return [
        error_line(topic.name, topic.error_code, topic.error_message)
        for topic in response.results
        if topic.error_code
    ]


@cluster_command
async def delete(options: Namespace, client: ClusterClient) -> None:
    response = await client.request(
        DeleteTopicsRequest(
            topics=[DeleteTopicState(name=name) for name in options.names],
            topic_names=options.names,
            timeout_ms=client.timeout_ms,
        ),
        DeleteTopicsResponse,
    )
    accepted = {ErrorCode.NONE}
    if options.if_exists:
        accepted.add(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    deleted = [it.name for it in response.responses if it.error_code == ErrorCode.NONE]
    report_names(options, deleted, "deleted")
    raise_if_any(
        error_line(it.name or "", it.error_code, it.error_message)
        for it in response.responses
        if it.error_code not in accepted
    )


def report_names(options: Namespace, names: list[str | None], verb: str) -> None:
    if options.json:
        print_json([{"name": name} for name in names])
    else:
        for name in names:
            print(f"{name}: {verb}")
