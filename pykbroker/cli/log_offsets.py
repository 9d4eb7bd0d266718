"""Asks the leaders of a topic for offsets: the start, the end, the first at a time."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from typing import TYPE_CHECKING, Final

from pykbroker.cli.failure import Refused
from pykbroker.cli.refusals import raise_if_refused
from pykbroker.cli.topic_lookup import BACKOFF_S, find_topic
from pykbroker_protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

if TYPE_CHECKING:
    from collections.abc import Collection

    from pykbroker.cli.client import Client
    from pykbroker_protocol.messages.metadata import MetadataResponseTopic

LATEST: Final = -1
EARLIEST: Final = -2
NO_LEADER: Final = -1
PATIENCE_S: Final = 5.0


async def log_offsets(
    client: Client,
    topic: MetadataResponseTopic,
    timestamp: int,
    *,
    partitions: Collection[int] | None = None,
    isolation_level: int = 0,
) -> dict[int, int]:
    """The offset of each partition that has a leader; -1 where no record is as young.

    A leader that does not know yet, or no longer, that it leads is looked for anew.
    """
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return await asked_offsets(client, topic, timestamp, partitions, isolation_level)
        except Refused as refused:
            if not refused.code.retriable or time.monotonic() > deadline:
                raise
        await asyncio.sleep(BACKOFF_S)
        topic = await find_topic(client, topic.name or "")


async def asked_offsets(
    client: Client,
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
        response = await client.ask(request, ListOffsetsResponse, node_id=leader)
        for answer in response.topics[0].partitions:
            raise_if_refused(answer.error_code)
            offsets[answer.partition_index] = answer.offset
    return offsets


def offsets_request(
    client: Client, topic: str, partitions: list[int], timestamp: int, isolation_level: int
) -> ListOffsetsRequest:
    wanted = [ListOffsetsPartition(partition_index=it, timestamp=timestamp) for it in partitions]
    return ListOffsetsRequest(
        replica_id=-1,
        isolation_level=isolation_level,
        topics=[ListOffsetsTopic(name=topic, partitions=wanted)],
        timeout_ms=client.timeout_ms,
    )
