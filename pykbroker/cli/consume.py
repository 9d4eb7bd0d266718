"""The command that reads the records of a topic."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from pykbroker.cli.asking import asks_the_cluster
from pykbroker.cli.consumer import READ_COMMITTED, READ_UNCOMMITTED, Consumer, Position
from pykbroker.cli.log_offsets import EARLIEST, LATEST, log_offsets
from pykbroker.cli.output import Progress
from pykbroker.cli.places import begin_offsets, chosen_partitions
from pykbroker.cli.record_format import record_format
from pykbroker.cli.topic_lookup import find_topic

if TYPE_CHECKING:
    from argparse import Namespace

    from pykbroker.cli.client import Client
    from pykbroker_protocol.messages.metadata import MetadataResponseTopic

ISOLATION_LEVELS = {"read_uncommitted": READ_UNCOMMITTED, "read_committed": READ_COMMITTED}


@asks_the_cluster
async def consume(options: Namespace, client: Client) -> None:
    formatted = record_format(options)
    topic = await find_topic(client, options.topic)
    isolation_level = ISOLATION_LEVELS[options.isolation]
    positions = await first_positions(options, client, topic, isolation_level)
    consumer = Consumer(client, topic, positions, isolation_level)
    progress = Progress("record") if not sys.stdout.isatty() else None
    left = options.max
    count = 0
    async for partition, records in consumer.records():
        wanted = records if left is None else records[:left]
        sys.stdout.buffer.writelines([formatted(partition, record) for record in wanted])
        sys.stdout.buffer.flush()
        count += len(wanted)
        if progress:
            progress.show(count)
        if left is not None:
            left -= len(wanted)
            if not left:
                break
    if progress:
        progress.clear()


async def first_positions(
    options: Namespace, client: Client, topic: MetadataResponseTopic, isolation_level: int
) -> list[Position]:
    """Where each partition is read from and, without --follow, where its present end is."""
    partitions = chosen_partitions(options.partitions, topic)
    starts = await log_offsets(client, topic, EARLIEST, partitions=partitions)
    ends = await log_offsets(
        client, topic, LATEST, partitions=partitions, isolation_level=isolation_level
    )
    begins = await begin_offsets(options.begin, client, topic, starts, ends)
    return [
        Position(partition=it, offset=begins[it], end=None if options.follow else ends[it])
        for it in sorted(begins)
    ]
