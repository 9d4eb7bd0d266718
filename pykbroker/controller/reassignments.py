"""Decides AlterPartitionReassignments, as far as no record must be copied between brokers.

A cluster of one node copies nothing. Its metadata may come from a larger cluster, with replicas on
other brokers and with reassignments in progress: reassignments can be cancelled, and replicas can
be removed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.controller.decision import bounded
from pykbroker.controller.new_partitions import problem_with_assignment
from pykbroker_protocol.errors import ErrorCode, Refusal
from pykbroker_protocol.metadata.topics import PartitionChangeRecord

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pykbroker.controller.decision import Decision
    from pykbroker.controller_access import PartitionReassignment
    from pykbroker.metadata.image import ClusterImage, PartitionImage
    from pykbroker_protocol.message import Message


def reassign_partitions(
    image: ClusterImage, reassignments: Sequence[PartitionReassignment]
) -> Decision[list[Refusal | None]]:
    """Decides each partition by itself. Of two entries for one partition the first counts."""
    records: dict[tuple[str, int], Message] = {}
    outcomes: list[Refusal | None] = []
    for reassignment in reassignments:
        decided = _decide(image, reassignment)
        if isinstance(decided, PartitionChangeRecord):
            records.setdefault((reassignment.topic, reassignment.index), decided)
        outcomes.append(decided if isinstance(decided, Refusal) else None)
    return bounded([*records.values()], outcomes)


def _decide(
    image: ClusterImage, reassignment: PartitionReassignment
) -> PartitionChangeRecord | Refusal | None:
    topic = image.topics.get(reassignment.topic)
    if topic is None:
        return Refusal(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"Unable to find a topic named {reassignment.topic}.",
        )
    if not 0 <= reassignment.index < len(topic.partitions):
        return Refusal(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"Unable to find partition {reassignment.topic}:{reassignment.index}.",
        )
    partition = topic.partitions[reassignment.index]
    if reassignment.replicas is None:
        return _cancel(topic.id, partition)
    return _reassign(image, topic.id, partition, reassignment)


def _cancel(topic_id: bytes, partition: PartitionImage) -> PartitionChangeRecord | Refusal:
    """Restores the original replicas, if one of them leads and is in sync."""
    if not partition.is_reassigning:
        return Refusal(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    return _completed(topic_id, partition, _original_replicas(partition))


def _reassign(
    image: ClusterImage,
    topic_id: bytes,
    partition: PartitionImage,
    reassignment: PartitionReassignment,
) -> PartitionChangeRecord | Refusal | None:
    target = tuple(reassignment.replicas or ())
    problem = problem_with_assignment(image, partition.index, target)
    if problem is not None:
        return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, problem)
    original = _original_replicas(partition)
    if not reassignment.may_change_replication_factor and len(target) != len(original):
        return Refusal(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor is {len(original)}, the request names {len(target)} "
            "replica(s) and does not allow a change of the replication factor.",
        )
    if target == partition.replicas and not partition.is_reassigning:
        return None
    return _completed(topic_id, partition, target)


def _original_replicas(partition: PartitionImage) -> tuple[int, ...]:
    return tuple(it for it in partition.replicas if it not in partition.adding)


def _completed(
    topic_id: bytes, partition: PartitionImage, replicas: tuple[int, ...]
) -> PartitionChangeRecord | Refusal:
    """Returns the record of a reassignment that is complete at once, or the refusal."""
    in_sync = tuple(it for it in partition.in_sync if it in replicas)
    if partition.leader not in in_sync or set(replicas) - set(partition.replicas):
        return Refusal(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Records would have to be copied from broker {partition.leader}, "
            "which is not supported.",
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
