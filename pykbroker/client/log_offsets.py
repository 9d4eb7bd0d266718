"""ListOffsets of a topic: start offsets, end offsets, or offsets by timestamp."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from pykbroker.client.errors import ApiError, only, raise_if_error
from pykbroker.client.retries import Recovery, recovery_from
from pykbroker_protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

if TYPE_CHECKING:
    from collections.abc import Collection

    from pykbroker.client.cluster_client import ClusterClient
    from pykbroker_protocol.messages.metadata import MetadataResponseTopic

LATEST: Final = -1
EARLIEST: Final = -2
NO_OFFSET: Final = -1
"""No record of the partition is as new as the timestamp."""
NO_LEADER: Final = -1
TIMEOUT_SECONDS: Final = 5.0


async def log_offsets(
    client: ClusterClient,
    topic: MetadataResponseTopic,
    timestamp: int,
    *,
    partitions: Collection[int] | None = None,
    isolation_level: int = 0,
) -> dict[int, int]:
    """Returns an offset for each partition that has a leader; retries while leaders move."""
    attempts = client.attempts(TIMEOUT_SECONDS)
    while True:
        try:
            return await request_offsets(client, topic, timestamp, partitions, isolation_level)
        except ApiError as refused:
            is_final = recovery_from(refused.code) is Recovery.NONE
            if is_final or not await attempts.pause():
                raise
        topic = await client.topic(topic.name or "")


async def request_offsets(
    client: ClusterClient,
    topic: MetadataResponseTopic,
    timestamp: int,
    partitions: Collection[int] | None,
    isolation_level: int,
) -> dict[int, int]:
    by_leader = defaultdict(list)
    for partition in topic.partitions:
        if partitions is not None and partition.partition_index not in partitions:
            continue
        if partition.leader_id != NO_LEADER:
            by_leader[partition.leader_id].append(partition.partition_index)
    offsets = {}
    for leader, indexes in by_leader.items():
        request = offsets_request(client, topic.name or "", indexes, timestamp, isolation_level)
        response = await client.request(request, ListOffsetsResponse, node_id=leader)
        for found in only(response.topics, "topics").partitions:
            raise_if_error(found.error_code)
            offsets[found.partition_index] = found.offset
    return offsets


def offsets_request(
    client: ClusterClient, topic: str, partitions: list[int], timestamp: int, isolation_level: int
) -> ListOffsetsRequest:
    requested = [ListOffsetsPartition(partition_index=it, timestamp=timestamp) for it in partitions]
    return ListOffsetsRequest(
        replica_id=-1,
        isolation_level=isolation_level,
        topics=[ListOffsetsTopic(name=topic, partitions=requested)],
        timeout_ms=client.timeout_ms,
    )
