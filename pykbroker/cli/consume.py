"""The command that reads the records of a topic."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from pykbroker.cli.asking import asks_the_cluster
from pykbroker.cli.command_line.values import Anchor
from pykbroker.cli.consumer import READ_COMMITTED, READ_UNCOMMITTED, Consumer, Position
from pykbroker.cli.failure import Refused
from pykbroker.cli.log_offsets import EARLIEST, LATEST, log_offsets
from pykbroker.cli.output import Progress
from pykbroker.cli.record_format import record_format
from pykbroker.cli.topic_lookup import find_topic
from pykbroker_protocol.errors import ErrorCode

if TYPE_CHECKING:
    from argparse import Namespace

    from pykbroker.cli.client import Client
    from pykbroker.cli.command_line.values import Place
    from pykbroker_protocol.messages.metadata import MetadataResponseTopic

NO_SUCH_RECORD = -1
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


def chosen_partitions(wanted: list[int] | None, topic: MetadataResponseTopic) -> set[int]:
    there = {partition.partition_index for partition in topic.partitions}
    for partition in wanted or ():
        if partition not in there:
            text = f"There is no partition {partition}, there are {len(there)}."
            raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
    return set(wanted) if wanted else there


async def begin_offsets(
    begin: Place,
    client: Client,
    topic: MetadataResponseTopic,
    starts: dict[int, int],
    ends: dict[int, int],
) -> dict[int, int]:
    match begin.anchor:
        case Anchor.BEGINNING:
            return starts
        case Anchor.END:
            return {it: max(starts[it], end - begin.amount) for it, end in ends.items()}
        case Anchor.OFFSET:
            return offsets_within(begin.amount, starts, ends)
        case Anchor.TIMESTAMP:
            found = await log_offsets(client, topic, begin.amount, partitions=starts.keys())
            return {it: ends[it] if at == NO_SUCH_RECORD else at for it, at in found.items()}


def offsets_within(offset: int, starts: dict[int, int], ends: dict[int, int]) -> dict[int, int]:
    """The same offset in each partition, if all of them hold it or end there."""
    for partition, start in starts.items():
        if not start <= offset <= ends[partition]:
            text = f"partition {partition} holds {start} to {ends[partition]}, not {offset}"
            raise Refused(ErrorCode.OFFSET_OUT_OF_RANGE, text)
    return dict.fromkeys(starts, offset)
