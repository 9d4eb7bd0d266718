"""The command `groups reset`: resets the committed offsets of an inactive group."""

from __future__ import annotations

import time
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pykbroker.cli.cluster_command import cluster_command
from pykbroker.cli.command_line.values import Anchor, OffsetSpec
from pykbroker.cli.failure import raise_if_any
from pykbroker.cli.groups.description import describe_group
from pykbroker.cli.groups.selection import partitions_to_reset
from pykbroker.cli.offset_specs import begin_offsets
from pykbroker.cli.output import counted, print_json, table
from pykbroker.client.committed_offsets import (
    TopicPartition,
    by_topic,
    commit_offsets,
    committed_offsets,
)
from pykbroker.client.coordinator import Coordinator
from pykbroker.client.errors import ApiError
from pykbroker.client.log_offsets import EARLIEST, LATEST, log_offsets
from pykbroker_protocol.errors import ErrorCode

if TYPE_CHECKING:
    from argparse import Namespace

    from pykbroker.client.cluster_client import ClusterClient
    from pykbroker.client.committed_offsets import Committed
    from pykbroker_protocol.messages.metadata import MetadataResponseTopic

HEADINGS: Final = ("TOPIC", "PARTITION", "COMMITTED", "NEW", "LAG", "NOTE")


class Limit(Enum):
    """The end of the log that limits a new offset."""

    START = "start"
    END = "end"


class Shift(NamedTuple):
    """A distance from the committed offset; backward if negative."""

    amount: int


Target = Shift | OffsetSpec


class TopicOffsets(NamedTuple):
    """Start, end and committed offsets by partition of a topic."""

    starts: dict[int, int]
    ends: dict[int, int]
    committed: dict[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetReset:
    """The committed offset of a partition before and after the reset."""

    partition: TopicPartition
    before: int | None
    after: int
    end: int
    limited_by: Limit | None


@cluster_command
async def reset(options: Namespace, client: ClusterClient) -> None:
    await raise_if_active(client, options.group)
    committed = await committed_offsets(client, options.group)
    partitions = await partitions_to_reset(options, client, committed)
    resets = await planned_resets(options, client, partitions, committed)
    if not options.dry_run:
        await commit(client, options.group, resets)
    if options.json:
        print_json([reset_document(it) for it in resets])
    else:
        print(resets_text(options.group, resets, is_dry_run=options.dry_run))


async def raise_if_active(client: ClusterClient, group_id: str) -> None:
    """Raises if the group has members, because they would overwrite the new offsets."""
    try:
        group = await describe_group(client, group_id)
    except ApiError as error:
        if error.code is ErrorCode.GROUP_ID_NOT_FOUND:
            return  # the first commit creates the group
        raise
    if group.has_members:
        members = counted(len(group.members), "member")
        text = f"The group is {group.state} with {members}; stop them first."
        raise ApiError(ErrorCode.NON_EMPTY_GROUP, text)


async def planned_resets(
    options: Namespace,
    client: ClusterClient,
    partitions: list[TopicPartition],
    committed: dict[TopicPartition, Committed],
) -> list[OffsetReset]:
    target = target_of(options, now_ms=round(time.time() * 1000))
    if isinstance(target, Shift):
        raise_if_never_committed(partitions, committed)
    resets = []
    for topic, of_topic in by_topic(partitions).items():
        found = await client.topic(topic)
        indexes = {it.partition for it in of_topic}
        starts = await log_offsets(client, found, EARLIEST, partitions=indexes)
        ends = await log_offsets(client, found, LATEST, partitions=indexes)
        raise_if_leaderless(of_topic, ends)
        before = {it.partition: committed[it].offset for it in of_topic if it in committed}
        offsets = TopicOffsets(starts, ends, before)
        targets = await targets_of(target, client, found, offsets)
        resets += [reset_within(it, targets[it.partition], offsets) for it in of_topic]
    return resets


def target_of(options: Namespace, *, now_ms: int) -> Target:
    if options.shift is not None:
        return Shift(options.shift)
    if options.back_ms is not None:
        return OffsetSpec(Anchor.TIMESTAMP, max(now_ms - options.back_ms, 0))
    spec: OffsetSpec = options.to
    return spec


async def targets_of(
    target: Target,
    client: ClusterClient,
    topic: MetadataResponseTopic,
    offsets: TopicOffsets,
) -> dict[int, int]:
    """Returns the target offset of each partition, which can be outside of its log."""
    starts = offsets.starts
    if isinstance(target, Shift):
        return {it: offsets.committed[it] + target.amount for it in starts}
    if target.anchor is Anchor.OFFSET:
        return dict.fromkeys(starts, target.amount)
    return await begin_offsets(target, client, topic, starts, offsets.ends)


def reset_within(partition: TopicPartition, target: int, offsets: TopicOffsets) -> OffsetReset:
    """Limits the target offset to the start and end of the log."""
    start, end = offsets.starts[partition.partition], offsets.ends[partition.partition]
    before = offsets.committed.get(partition.partition)
    limited_by = Limit.START if target < start else Limit.END if target > end else None
    after = min(max(target, start), end)
    return OffsetReset(
        partition=partition, before=before, after=after, end=end, limited_by=limited_by
    )


def raise_if_never_committed(
    partitions: list[TopicPartition], committed: dict[TopicPartition, Committed]
) -> None:
    raise_if_any(
        [f"{it}: --shift needs a committed offset" for it in partitions if it not in committed]
    )


def raise_if_leaderless(partitions: list[TopicPartition], ends: dict[int, int]) -> None:
    raise_if_any(
        [
            f"{it}: {ApiError(ErrorCode.LEADER_NOT_AVAILABLE)}"
            for it in partitions
            if it.partition not in ends
        ]
    )


async def commit(client: ClusterClient, group_id: str, resets: list[OffsetReset]) -> None:
    """Commits the new offsets; an error for one partition does not affect the others."""
    coordinator = Coordinator(client, group_id)
    codes = await commit_offsets(coordinator, group_id, {it.partition: it.after for it in resets})
    raise_if_any(
        [
            f"{partition}: {ApiError(code)}"
            for partition, code in codes.items()
            if code is not ErrorCode.NONE
        ]
    )


def reset_document(it: OffsetReset) -> dict[str, Any]:
    return {
        "topic": it.partition.topic,
        "partition": it.partition.partition,
        "committed_offset": it.before,
        "new_offset": it.after,
        "end_offset": it.end,
        "lag": it.end - it.after,
        "limited_by": it.limited_by and it.limited_by.value,
    }


def resets_text(group_id: str, resets: list[OffsetReset], *, is_dry_run: bool) -> str:
    partitions = counted(len(resets), "partition")
    verb = "would be reset" if is_dry_run else "reset"
    head = f"group {group_id}: {partitions} {verb}"
    if is_dry_run:
        head += " (dry run)"
    return f"{head}\n{table(HEADINGS, map(reset_row, resets))}"


def reset_row(it: OffsetReset) -> tuple[object, ...]:
    note = it.limited_by and f"limited to the log {it.limited_by.value}"
    lag = it.end - it.after
    return it.partition.topic, it.partition.partition, it.before, it.after, lag, note
