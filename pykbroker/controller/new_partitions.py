"""Partitions that do not exist yet: their replicas and the records that make them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from pykbroker.controller.decision import RECORDS_PER_COMMAND_MAX, TOO_MANY_RECORDS, Decision
from pykbroker.controller.placement import Candidate, place
from pykbroker.slices import SLICE_ELEMENTS
from pykbroker_protocol.errors import ErrorCode, Refusal
from pykbroker_protocol.message import ZERO_UUID
from pykbroker_protocol.metadata.topics import PartitionRecord

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pykbroker.controller.placement import Draw
    from pykbroker.controller_access import NewPartitions
    from pykbroker.metadata.image import ClusterImage, TopicImage
    from pykbroker.slices import Slices
    from pykbroker_protocol.message import Message

PLACED_PER_SLICE = 128
UNASSIGNED_DIRECTORY = ZERO_UUID
"""A broker of several directories chooses itself."""


def create_partitions(
    image: ClusterImage, wanted: Sequence[NewPartitions], draw: Draw
) -> Slices[Decision[list[Refusal | None]]]:
    times = Counter([it.name for it in wanted])
    left = SLICE_ELEMENTS
    records: list[Message] = []
    outcomes: list[Refusal | None] = []
    for topic in wanted:
        made = (
            Refusal(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            if times[topic.name] > 1
            else (yield from _grow(image, topic, draw))
        )
        if not isinstance(made, Refusal) and len(records) + len(made) > RECORDS_PER_COMMAND_MAX:
            made = TOO_MANY_RECORDS
        if isinstance(made, Refusal):
            outcomes.append(made)
        else:
            records += made
            outcomes.append(None)
            left -= len(made)
        left -= 1
        if left < 0:
            left = SLICE_ELEMENTS
            yield
    return Decision(records, outcomes)


def _grow(
    image: ClusterImage, wanted: NewPartitions, draw: Draw
) -> Slices[list[Message] | Refusal]:
    topic = image.topics.get(wanted.name)
    if topic is None:
        return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    refusal = _refuse_count(topic, wanted)
    if refusal is not None:
        return refusal
    indexes = range(len(topic.partitions), wanted.count)
    replicas = len(topic.partitions[0].replicas)
    if wanted.assignments is None:
        return (
            yield from placed_partitions(
                image, topic.id, indexes=indexes, replicas=replicas, draw=draw
            )
        )
    assigned = zip(indexes, wanted.assignments, strict=True)
    return assigned_partitions(image, topic.id, assigned, replicas_each=replicas)


def _refuse_count(topic: TopicImage, wanted: NewPartitions) -> Refusal | None:
    have = len(topic.partitions)
    if wanted.count == have:
        return Refusal(ErrorCode.INVALID_PARTITIONS, f"Topic already has {have} partition(s).")
    if wanted.count < have:
        return Refusal(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {topic.name} currently has {have} partition(s); "
            f"{wanted.count} would not be an increase.",
        )
    more = wanted.count - have
    if wanted.assignments is not None and len(wanted.assignments) != more:
        return Refusal(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Attempted to add {more} additional partition(s), "
            f"but only {len(wanted.assignments)} assignment(s) were specified.",
        )
    return TOO_MANY_RECORDS if more > RECORDS_PER_COMMAND_MAX else None


def placed_partitions(
    image: ClusterImage, topic_id: bytes, *, indexes: Sequence[int], replicas: int, draw: Draw
) -> Slices[list[Message] | Refusal]:
    """Where the cluster chooses the brokers."""
    candidates = (
        Candidate(broker.id, broker.rack, broker.fenced or broker.in_controlled_shutdown)
        for broker in image.brokers.values()
    )
    placed = place(candidates, partitions=len(indexes), replicas=replicas, draw=draw)
    if isinstance(placed, Refusal):
        return placed
    records: list[Message] = []
    for index, brokers in zip(indexes, placed, strict=True):
        records.append(_record(image, topic_id, index, brokers))
        if len(records) % PLACED_PER_SLICE == 0:
            yield
    return records


def assigned_partitions(
    image: ClusterImage,
    topic_id: bytes,
    assignments: Iterable[tuple[int, Sequence[int]]],
    *,
    replicas_each: int | None,
) -> list[Message] | Refusal:
    """Where the client chose them; the first assignment says how many, unless that is known."""
    records: list[Message] = []
    for index, brokers in assignments:
        refusal = _refuse_assignment(image, index, brokers, replicas_each)
        if refusal is not None:
            return refusal
        replicas_each = len(brokers)
        records.append(_record(image, topic_id, index, tuple(brokers)))
    return records


def _refuse_assignment(
    image: ClusterImage, index: int, brokers: Sequence[int], replicas_each: int | None
) -> Refusal | None:
    problem = problem_with_assignment(image, index, brokers, replicas_each)
    return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, problem) if problem else None


def problem_with_assignment(
    image: ClusterImage, index: int, brokers: Sequence[int], replicas_each: int | None = None
) -> str | None:
    """What speaks against these brokers as replicas, in words for the client."""
    prefix = "The manual partition assignment includes"
    if not brokers:
        return f"{prefix} an empty replica list."
    previous = None
    for broker in sorted(brokers):
        if broker == previous:
            return f"{prefix} the broker {broker} more than once."
        if broker not in image.brokers:
            return f"{prefix} broker {broker}, but no such broker is registered."
        previous = broker
    if replicas_each is not None and len(brokers) != replicas_each:
        return (
            f"{prefix} a partition with {len(brokers)} replica(s), but this is not "
            f"consistent with previous partitions, which have {replicas_each} replica(s)."
        )
    if not _in_sync(image, brokers):
        return (
            "All brokers specified in the manual partition assignment for partition "
            f"{index} are fenced or in controlled shutdown."
        )
    return None


def _record(
    image: ClusterImage, topic_id: bytes, index: int, brokers: Sequence[int]
) -> PartitionRecord:
    in_sync = _in_sync(image, brokers)
    return PartitionRecord(
        partition_id=index,
        topic_id=topic_id,
        replicas=tuple(brokers),
        isr=in_sync,
        removing_replicas=(),
        adding_replicas=(),
        leader=in_sync[0],
        leader_epoch=0,
        partition_epoch=0,
        directories=tuple(_directory(image, broker) for broker in brokers),
    )


def _in_sync(image: ClusterImage, brokers: Iterable[int]) -> tuple[int, ...]:
    """A new partition is empty, so whoever is up has all of it."""
    known = image.brokers
    return tuple(it for it in brokers if not (known[it].fenced or known[it].in_controlled_shutdown))


def _directory(image: ClusterImage, broker: int) -> bytes:
    directories = image.brokers[broker].directories
    return directories[0] if len(directories) == 1 else UNASSIGNED_DIRECTORY
