"""Turns a place that somebody names into an offset of each partition of a topic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pykbroker.cli.command_line.values import Anchor
from pykbroker.client.cluster_client import no_such_partition
from pykbroker.client.errors import ApiError
from pykbroker.client.log_offsets import log_offsets
from pykbroker_protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pykbroker.cli.command_line.values import OffsetSpec
    from pykbroker.client.cluster_client import ClusterClient
    from pykbroker_protocol.messages.metadata import MetadataResponseTopic

NO_SUCH_RECORD: Final = -1


async def begin_offsets(
    begin: OffsetSpec,
    client: ClusterClient,
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
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE, text)
    return dict.fromkeys(starts, offset)


def chosen_partitions(wanted: Sequence[int] | None, topic: MetadataResponseTopic) -> set[int]:
    """These partitions, if the topic has them, or all that it has."""
    there = {partition.partition_index for partition in topic.partitions}
    for partition in wanted or ():
        if partition not in there:
            raise no_such_partition(partition, len(there))
    return set(wanted) if wanted else there
