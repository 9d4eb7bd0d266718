"""Partitions move to other brokers, as far as that needs no record to be copied between them.

A cluster of one node copies nothing. Yet metadata that was written by a larger cluster may tell of
replicas elsewhere, and of moves under way: those can be given up, and replicas that are not needed
any more can go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.controller.decision import bounded
from pykbroker.controller.new_partitions import problem_with_assignment
from pykbroker_protocol.errors import ErrorCode, Refusal
from pykbroker_protocol.late_dataclass import dataclass
from pykbroker_protocol.metadata.topics import PartitionChangeRecord

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pykbroker.controller.decision import Decision
    from pykbroker.metadata.image import ClusterImage, PartitionImage
    from pykbroker_protocol.message import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """The replicas that a partition shall have; None gives up the move that is under way."""

    topic: str
    index: int
    replicas: Sequence[int] | None
    may_change_count: bool = True


def move_partitions(image: ClusterImage, moves: Sequence[Move]) -> Decision[list[Refusal | None]]:
    """Each is decided by itself; the one named first wins where one partition is named twice."""
    records: dict[tuple[str, int], Message] = {}
    outcomes: list[Refusal | None] = []
    for move in moves:
        decided = _decide(image, move)
        if isinstance(decided, PartitionChangeRecord):
            records.setdefault((move.topic, move.index), decided)
        outcomes.append(decided if isinstance(decided, Refusal) else None)
    return bounded([*records.values()], outcomes)


def _decide(image: ClusterImage, move: Move) -> PartitionChangeRecord | Refusal | None:
    topic = image.topics.get(move.topic)
    if topic is None:
        return Refusal(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {move.topic}."
        )
    if not 0 <= move.index < len(topic.partitions):
        return Refusal(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"Unable to find partition {move.topic}:{move.index}.",
        )
    partition = topic.partitions[move.index]
    if move.replicas is None:
        return _give_up(topic.id, partition)
    return _place(image, topic.id, partition, move)


def _give_up(topic_id: bytes, partition: PartitionImage) -> PartitionChangeRecord | Refusal:
    """Back to the replicas that there were, where one of them has it all."""
    if not partition.is_reassigning:
        return Refusal(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    before = tuple(it for it in partition.replicas if it not in partition.adding)
    return _settled(topic_id, partition, before)


def _place(
    image: ClusterImage, topic_id: bytes, partition: PartitionImage, move: Move
) -> PartitionChangeRecord | Refusal | None:
    wanted = tuple(move.replicas or ())
    problem = problem_with_assignment(image, partition.index, wanted)
    if problem is not None:
        return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, problem)
    before = tuple(it for it in partition.replicas if it not in partition.adding)
    if not move.may_change_count and len(wanted) != len(before):
        return Refusal(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The partition has {len(before)} replica(s), and {len(wanted)} are asked for.",
        )
    if wanted == partition.replicas and not partition.is_reassigning:
        return None
    return _settled(topic_id, partition, wanted)


def _settled(
    topic_id: bytes, partition: PartitionImage, replicas: tuple[int, ...]
) -> PartitionChangeRecord | Refusal:
    """These replicas and no move under way: done at once, or refused."""
    in_sync = tuple(it for it in partition.in_sync if it in replicas)
    if partition.leader not in in_sync or set(replicas) - set(partition.replicas):
        return Refusal(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Records would have to be copied from broker {partition.leader}, "
            "which this cluster does not do.",
        )
    directories = dict(zip(partition.replicas, partition.directories, strict=False))
    return PartitionChangeRecord(
        partition_id=partition.index,
        topic_id=topic_id,
        replicas=replicas,
        isr=in_sync,
        adding_replicas=(),
        removing_replicas=(),
        directories=tuple(directories[it] for it in replicas) if directories else None,
        eligible_leader_replicas=tuple(it for it in partition.eligible if it in replicas),
    )
