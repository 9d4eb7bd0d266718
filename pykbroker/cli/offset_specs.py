"""Resolves an offset spec (`earliest`, `-10`, a time) to an offset per partition."""

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

UNKNOWN_OFFSET: Final = -1
"""ListOffsets returns it if no record is at or after the time."""


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
            return {it: ends[it] if at == UNKNOWN_OFFSET else at for it, at in found.items()}


def offsets_within(offset: int, starts: dict[int, int], ends: dict[int, int]) -> dict[int, int]:
    """Returns the offset for each partition; raises if it is outside of one of them."""
    for partition, start in starts.items():
        if not start <= offset <= ends[partition]:
            text = f"{offset} is not in partition {partition} ({start} to {ends[partition]})"
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE, text)
    return dict.fromkeys(starts, offset)


def chosen_partitions(chosen: Sequence[int] | None, topic: MetadataResponseTopic) -> set[int]:
    """Returns the chosen partitions, or all if none are chosen; raises for an unknown one."""
    existing = {partition.partition_index for partition in topic.partitions}
    for partition in chosen or ():
        if partition not in existing:
            raise no_such_partition(partition, len(existing))
    return set(chosen) if chosen else existing
