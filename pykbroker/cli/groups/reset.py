"""The command that moves the committed offsets of a group whose members are gone."""

from __future__ import annotations

import time
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pykbroker.cli.cluster_command import cluster_command
from pykbroker.cli.command_line.values import Anchor
from pykbroker.cli.command_line.values import OffsetSpec as Target
from pykbroker.cli.failure import RefusedEach
from pykbroker.cli.groups.description import describe_group
from pykbroker.cli.groups.selection import places_to_move
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
    """Why a partition does not stand where it was told to: its log does not reach there."""

    START = "start"
    END = "end"


class Shift(NamedTuple):
    """So far from where the group is; backward if negative."""

    amount: int


Wish = Shift | Target


class Standing(NamedTuple):
    """How matters stand in a topic: what its partitions hold, what the group has committed."""

    starts: dict[int, int]
    ends: dict[int, int]
    committed: dict[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """One partition's committed offset, before and after."""

    place: TopicPartition
    before: int | None
    after: int
    end: int
    limited_by: Limit | None


@cluster_command
async def reset(options: Namespace, client: ClusterClient) -> None:
    await refuse_if_read(client, options.group)
    committed = await committed_offsets(client, options.group)
    places = await places_to_move(options, client, committed)
    moves = await planned_moves(options, client, places, committed)
    if not options.dry_run:
        await carry_out(client, options.group, moves)
    if options.json:
        print_json([move_document(move) for move in moves])
    else:
        print(moves_text(options.group, moves, is_dry_run=options.dry_run))


async def refuse_if_read(client: ClusterClient, group_id: str) -> None:
    """Members would go on from where they are, and commit over what we write."""
    try:
        group = await describe_group(client, group_id)
    except ApiError as refused:
        if refused.code is ErrorCode.GROUP_ID_NOT_FOUND:
            return  # to be made by its first offset
        raise
    if group.has_members:
        members = counted(len(group.members), "member")
        text = f"The group is {group.state} with {members}; stop them first."
        raise ApiError(ErrorCode.NON_EMPTY_GROUP, text)


async def planned_moves(
    options: Namespace,
    client: ClusterClient,
    places: list[TopicPartition],
    committed: dict[TopicPartition, Committed],
) -> list[Move]:
    wish = wish_of(options, now_ms=round(time.time() * 1000))
    if isinstance(wish, Shift):
        refuse_never_committed(places, committed)
    moves = []
    for topic, wanted in by_topic(places).items():
        found = await client.topic(topic)
        partitions = {it.partition for it in wanted}
        starts = await log_offsets(client, found, EARLIEST, partitions=partitions)
        ends = await log_offsets(client, found, LATEST, partitions=partitions)
        refuse_without_leader(wanted, ends)
        before = {it.partition: committed[it].offset for it in wanted if it in committed}
        standing = Standing(starts, ends, before)
        aims = await aims_of(wish, client, found, standing)
        moves += [move_within(it, aims[it.partition], standing) for it in wanted]
    return moves


def wish_of(options: Namespace, *, now_ms: int) -> Wish:
    if options.shift is not None:
        return Shift(options.shift)
    if options.back_ms is not None:
        return Target(Anchor.TIMESTAMP, max(now_ms - options.back_ms, 0))
    wanted: Target = options.to
    return wanted


async def aims_of(
    wish: Wish,
    client: ClusterClient,
    topic: MetadataResponseTopic,
    standing: Standing,
) -> dict[int, int]:
    """Where each partition should stand, whether or not its log reaches there."""
    starts = standing.starts
    if isinstance(wish, Shift):
        return {it: standing.committed[it] + wish.amount for it in starts}
    if wish.anchor is Anchor.OFFSET:
        return dict.fromkeys(starts, wish.amount)
    return await begin_offsets(wish, client, topic, starts, standing.ends)


def move_within(place: TopicPartition, aim: int, standing: Standing) -> Move:
    """As near to the aim as the log reaches."""
    start, end = standing.starts[place.partition], standing.ends[place.partition]
    before = standing.committed.get(place.partition)
    limited_by = Limit.START if aim < start else Limit.END if aim > end else None
    after = min(max(aim, start), end)
    return Move(place=place, before=before, after=after, end=end, limited_by=limited_by)


def refuse_never_committed(
    places: list[TopicPartition], committed: dict[TopicPartition, Committed]
) -> None:
    refuse_each(
        [f"{it}: there is no committed offset to shift" for it in places if it not in committed]
    )


def refuse_without_leader(places: list[TopicPartition], ends: dict[int, int]) -> None:
    refuse_each(
        [
            f"{it}: {ApiError(ErrorCode.LEADER_NOT_AVAILABLE)}"
            for it in places
            if it.partition not in ends
        ]
    )


def refuse_each(refusals: list[str]) -> None:
    if refusals:
        raise RefusedEach(refusals)


async def carry_out(client: ClusterClient, group_id: str, moves: list[Move]) -> None:
    """Commit the new offsets; where one is refused, the others are moved nevertheless."""
    coordinator = Coordinator(client, group_id)
    codes = await commit_offsets(coordinator, group_id, {it.place: it.after for it in moves})
    refuse_each(
        [
            f"{place}: {ApiError(code)}"
            for place, code in codes.items()
            if code is not ErrorCode.NONE
        ]
    )


def move_document(move: Move) -> dict[str, Any]:
    return {
        "topic": move.place.topic,
        "partition": move.place.partition,
        "committed_offset": move.before,
        "new_offset": move.after,
        "end_offset": move.end,
        "lag": move.end - move.after,
        "limited_by": move.limited_by and move.limited_by.value,
    }


def moves_text(group_id: str, moves: list[Move], *, is_dry_run: bool) -> str:
    partitions = counted(len(moves), "partition")
    verb = "would be reset" if is_dry_run else "reset"
    head = f"group {group_id}: {partitions} {verb}"
    if is_dry_run:
        head += " (nothing has changed)"
    return f"{head}\n{table(HEADINGS, map(move_row, moves))}"


def move_row(move: Move) -> tuple[object, ...]:
    note = move.limited_by and f"no further, the log's {move.limited_by.value}"
    lag = move.end - move.after
    return move.place.topic, move.place.partition, move.before, move.after, lag, note
