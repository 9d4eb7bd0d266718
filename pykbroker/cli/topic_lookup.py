"""Finds a topic, patiently: one that is just being created may not be there at once."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

from pykbroker.cli.failure import Refused
from pykbroker.cli.refusals import error_of
from pykbroker_protocol.errors import ErrorCode

if TYPE_CHECKING:
    from pykbroker.cli.client import Client
    from pykbroker_protocol.messages.metadata import MetadataResponseTopic

BACKOFF_S: Final = 0.1
CREATION_TIMEOUT_S: Final = 3.0


async def find_topic(
    client: Client, name: str, *, may_create: bool = False
) -> MetadataResponseTopic:
    """The topic with its partitions in order; it may be created if the brokers do that."""
    deadline = time.monotonic() + CREATION_TIMEOUT_S
    while True:
        metadata = await client.metadata([name], may_create=may_create)
        topic = metadata.topics[0]
        error = error_of(topic.error_code)
        if error is ErrorCode.NONE:
            in_order = sorted(topic.partitions, key=lambda partition: partition.partition_index)
            return topic.replace(partitions=in_order)
        may_appear = may_create or error is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if not error.retriable or not may_appear or time.monotonic() > deadline:
            raise Refused(error)
        await asyncio.sleep(BACKOFF_S)


def no_partition(partition: int, count: int) -> Refused:
    text = f"There is no partition {partition}, there are {count}."
    return Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
