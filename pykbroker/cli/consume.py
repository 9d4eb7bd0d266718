"""The command `consume`: prints the records of a topic, with or without a consumer group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.cli.cluster_command import cluster_command
from pykbroker.cli.failure import CannotBegin
from pykbroker.cli.groups.group_reading import GroupReading
from pykbroker.cli.offset_specs import begin_offsets, chosen_partitions
from pykbroker.cli.record_printer import RecordPrinter
from pykbroker.client.consumer import READ_COMMITTED, READ_UNCOMMITTED, Consumer, Position
from pykbroker.client.log_offsets import EARLIEST, LATEST, log_offsets

if TYPE_CHECKING:
    from argparse import Namespace

    from pykbroker.client.cluster_client import ClusterClient
    from pykbroker_protocol.messages.metadata import MetadataResponseTopic

ISOLATION_LEVELS = {"read_uncommitted": READ_UNCOMMITTED, "read_committed": READ_COMMITTED}


@cluster_command
async def consume(options: Namespace, client: ClusterClient) -> None:
    printer = RecordPrinter(options)
    isolation_level = ISOLATION_LEVELS[options.isolation]
    if options.group is None:
        await consume_without_group(options, client, printer, isolation_level)
    elif options.partitions:
        raise CannotBegin("--partition cannot be combined with --group")
    else:
        await GroupReading(options, client, printer, isolation_level).read()
    printer.end()


async def consume_without_group(
    options: Namespace, client: ClusterClient, printer: RecordPrinter, isolation_level: int
) -> None:
    topic = await client.topic(options.topic)
    positions = await first_positions(options, client, topic, isolation_level)
    async for partition, records in Consumer(client, topic, positions, isolation_level).records():
        printer.print(partition, records)
        if printer.is_done:
            return


async def first_positions(
    options: Namespace, client: ClusterClient, topic: MetadataResponseTopic, isolation_level: int
) -> list[Position]:
    """Returns the start offset of each partition and, without --follow, its end offset."""
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
