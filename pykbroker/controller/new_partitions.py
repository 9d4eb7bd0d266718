"""Decides CreatePartitions, and returns the records of new partitions."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from pykbroker.controller.decision import RECORDS_PER_COMMAND_MAX, TOO_MANY_RECORDS, Decision
from pykbroker.controller.placement import Candidate, place_replicas
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
"""A broker with several directories chooses one itself."""


def create_partitions(
    image: ClusterImage, topics: Sequence[NewPartitions], draw: Draw
) -> Slices[Decision[list[Refusal | None]]]:
    times = Counter([it.name for it in topics])
    left = SLICE_ELEMENTS
    records: list[Message] = []
    outcomes: list[Refusal | None] = []
    for topic in topics:
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
    image: ClusterImage, target: NewPartitions, draw: Draw
) -> Slices[list[Message] | Refusal]:
    topic = image.topics.get(target.name)
    if topic is None:
        return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    refusal = _refuse_count(topic, target)
    if refusal is not None:
        return refusal
    indexes = range(len(topic.partitions), target.count)
    replicas = len(topic.partitions[0].replicas)
    if target.assignments is None:
        return (
            yield from placed_partitions(
                image, topic.id, indexes=indexes, replicas=replicas, draw=draw
            )
        )
    assigned = zip(indexes, target.assignments, strict=True)
    return assigned_partitions(image, topic.id, assigned, replicas_each=replicas)


def _refuse_count(topic: TopicImage, target: NewPartitions) -> Refusal | None:
    have = len(topic.partitions)
    if target.count == have:
        return Refusal(ErrorCode.INVALID_PARTITIONS, f"Topic already has {have} partition(s).")
    if target.count < have:
        return Refusal(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {topic.name} currently has {have} partition(s); "
            f"{target.count} would not be an increase.",
        )
    more = target.count - have
    if target.assignments is not None and len(target.assignments) != more:
        return Refusal(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Attempted to add {more} additional partition(s), "
            f"but only {len(target.assignments)} assignment(s) were specified.",
        )
    return TOO_MANY_RECORDS if more > RECORDS_PER_COMMAND_MAX else None


def placed_partitions(
    image: ClusterImage, topic_id: bytes, *, indexes: Sequence[int], replicas: int, draw: Draw
) -> Slices[list[Message] | Refusal]:
    """Returns records of partitions whose replicas the controller chooses."""
    candidates = (
        Candidate(broker.id, broker.rack, broker.fenced or broker.in_controlled_shutdown)
        for broker in image.brokers.values()
    )
    placed = place_replicas(candidates, partitions=len(indexes), replicas=replicas, draw=draw)
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
    """Returns records of partitions whose replicas the client chose.

    Without `replicas_each` the first assignment determines the replication factor.
    """
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
    """Returns the reason if these brokers cannot be the replicas, in Kafka's words."""
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
    """A new partition is empty, so every live replica is in sync."""
    known = image.brokers
    return tuple(it for it in brokers if not (known[it].fenced or known[it].in_controlled_shutdown))


def _directory(image: ClusterImage, broker: int) -> bytes:
    directories = image.brokers[broker].directories
    return directories[0] if len(directories) == 1 else UNASSIGNED_DIRECTORY
