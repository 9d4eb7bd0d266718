"""Reads the partitions of topics in pages, their min.insync.replicas, and lags of replicas."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import TYPE_CHECKING, Final

from pykbroker.cli.cluster.health import Census, lagging_candidates
from pykbroker.cli.cluster.state import NO_LEADER, PartitionState, TopicPartition
from pykbroker.cli.cluster.survey import at_broker
from pykbroker.cli.cluster_command import error_line
from pykbroker.cli.configs import ResourceType
from pykbroker.client.errors import ApiError, ClientError, InvalidResponse
from pykbroker.client.log_offsets import LATEST
from pykbroker_protocol.api_keys import ApiKey
from pykbroker_protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from pykbroker_protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from pykbroker_protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence

    from pykbroker.cli.cluster.health import Unhealthy
    from pykbroker.cli.cluster.state import Members
    from pykbroker.client.broker_connection import BrokerConnection
    from pykbroker.client.cluster_client import ClusterClient
    from pykbroker_protocol.messages.describe_topic_partitions import (
        Cursor,
        DescribeTopicPartitionsResponsePartition,
    )
    from pykbroker_protocol.messages.metadata import MetadataResponsePartition

MIN_IN_SYNC: Final = "min.insync.replicas"
PAGE_PARTITIONS: Final = 2000
"""Partitions per request, the default limit of brokers."""
CONFIG_TOPICS_MAX: Final = 500
"""Topics per DescribeConfigs request."""
DEBUGGING_REPLICA: Final = -2
"""With this id, ListOffsets returns the log end offset of any replica, not only of the leader."""

Lags = dict[tuple[TopicPartition, int], int]


async def take_census(
    client: ClusterClient, topics: Sequence[str], shown_max: int, errors: list[str]
) -> Census:
    """Counts all partitions, or those of some topics; appends a line per topic with an error."""
    census = Census(shown_max)
    async for page in pages(client, topics, errors):
        # Only partitions with missing replicas can be below min.insync.replicas.
        affected = {it.topic for it in page if it.is_under_replicated}
        limits = await read_min_in_sync(client, sorted(affected))
        for partition in page:
            census.add(partition, limits.get(partition.topic))
    return census


async def pages(
    client: ClusterClient, topics: Sequence[str], errors: list[str]
) -> AsyncIterator[list[PartitionState]]:
    broker = await client.broker()
    if not broker.offers(ApiKey.DESCRIBE_TOPIC_PARTITIONS):
        yield await all_at_once(client, topics, errors)
        return
    cursor: Cursor | None = None
    while True:
        request = DescribeTopicPartitionsRequest(
            topics=[TopicRequest(name=it) for it in sorted(set(topics))],
            response_partition_limit=PAGE_PARTITIONS,
            cursor=cursor,
        )
        response = await broker.request(request, DescribeTopicPartitionsResponse)
        errors += [
            error_line(it.name or "", it.error_code) for it in response.topics if it.error_code
        ]
        yield [
            partition_state(topic.name or "", it)
            for topic in response.topics
            for it in sorted(topic.partitions, key=lambda it: it.partition_index)
        ]
        following = response.next_cursor
        if following is None:
            return
        if cursor is not None and not position(cursor) < position(following):
            raise InvalidResponse("DescribeTopicPartitions: next_cursor does not advance")
        cursor = following


def position(cursor: Cursor) -> tuple[str, int]:
    return cursor.topic_name, cursor.partition_index


async def all_at_once(
    client: ClusterClient, topics: Sequence[str], errors: list[str]
) -> list[PartitionState]:
    """Requests Metadata, for brokers without DescribeTopicPartitions (before Apache Kafka 3.8)."""
    metadata = await client.metadata(sorted(set(topics)) or None)
    found = sorted(metadata.topics, key=lambda it: it.name or "")
    errors += [error_line(it.name or "", it.error_code) for it in found if it.error_code]
    return [
        partition_state(topic.name or "", it)
        for topic in found
        for it in sorted(topic.partitions, key=lambda it: it.partition_index)
    ]


def partition_state(
    topic: str, found: DescribeTopicPartitionsResponsePartition | MetadataResponsePartition
) -> PartitionState:
    eligible = getattr(found, "eligible_leader_replicas", None)  # Metadata does not have these two
    last_known = getattr(found, "last_known_elr", None)
    return PartitionState(
        topic=topic,
        index=found.partition_index,
        leader=None if found.leader_id == NO_LEADER else found.leader_id,
        leader_epoch=found.leader_epoch,
        replicas=found.replica_nodes,
        in_sync=found.isr_nodes,
        offline=found.offline_replicas,
        eligible=eligible,
        last_known_eligible=last_known,
    )


async def read_min_in_sync(client: ClusterClient, topics: Sequence[str]) -> dict[str, int]:
    """Returns min.insync.replicas of topics; topics that cannot be described are absent."""
    limits: dict[str, int] = {}
    for start in range(0, len(topics), CONFIG_TOPICS_MAX):
        resources = [
            DescribeConfigsResource(
                resource_type=ResourceType.TOPIC,
                resource_name=it,
                configuration_keys=[MIN_IN_SYNC],
            )
            for it in topics[start : start + CONFIG_TOPICS_MAX]
        ]
        try:
            response = await client.request(
                DescribeConfigsRequest(resources=resources), DescribeConfigsResponse
            )
        except ApiError:
            return limits
        limits |= {
            result.resource_name: int(config.value)
            for result in response.results
            for config in result.configs
            if config.name == MIN_IN_SYNC and config.value and config.value.isdecimal()
        }
    return limits


async def measure_lags(
    client: ClusterClient, members: Members, unhealthy: Iterable[Unhealthy]
) -> Lags:
    """Compares log end offsets of missing replicas with those of the leaders.

    Followers do not report this lag: their own high watermark is never beyond their log end.
    """
    requested: dict[int, list[TopicPartition]] = defaultdict(list)
    pairs: list[tuple[TopicPartition, int, int]] = []
    for it in unhealthy:
        leader, name = it.partition.leader, it.partition.name
        candidates = lagging_candidates(it, members)
        if leader is None or not candidates or leader not in members.brokers:
            continue
        requested[leader].append(name)
        for replica in candidates:
            requested[replica].append(name)
            pairs.append((name, leader, replica))
    ends = await read_log_ends(client, members, requested)
    return {
        (name, replica): max(0, ends[leader][name] - ends[replica][name])
        for name, leader, replica in pairs
        if name in ends[leader] and name in ends[replica]
    }


async def read_log_ends(
    client: ClusterClient, members: Members, requested: Mapping[int, Collection[TopicPartition]]
) -> dict[int, dict[TopicPartition, int]]:
    found = await asyncio.gather(
        *(log_ends_of(client, members, node_id, names) for node_id, names in requested.items())
    )
    return dict(zip(requested, found, strict=True))


async def log_ends_of(
    client: ClusterClient, members: Members, node_id: int, names: Collection[TopicPartition]
) -> dict[TopicPartition, int]:
    """Returns log end offsets of replicas of one broker; nothing if it does not respond."""

    async def read(broker: BrokerConnection) -> ListOffsetsResponse:
        return await broker.request(log_ends_request(names), ListOffsetsResponse)

    try:
        response = await at_broker(client, members.brokers[node_id].address, read)
    except ClientError:
        return {}
    return {
        TopicPartition(topic.name, it.partition_index): it.offset
        for topic in response.topics
        for it in topic.partitions
        if not it.error_code
    }


def log_ends_request(names: Collection[TopicPartition]) -> ListOffsetsRequest:
    by_topic: dict[str, list[ListOffsetsPartition]] = defaultdict(list)
    for name in names:
        by_topic[name.topic].append(
            ListOffsetsPartition(partition_index=name.partition, timestamp=LATEST)
        )
    topics = [ListOffsetsTopic(name=name, partitions=found) for name, found in by_topic.items()]
    return ListOffsetsRequest(replica_id=DEBUGGING_REPLICA, topics=topics)
