"""Decides ElectLeaders: elects the preferred replica, or any live replica if there is no leader."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.controller.decision import bounded
from pykbroker.controller_access import ElectionType
from pykbroker.metadata.image import NO_LEADER
from pykbroker_protocol.errors import ErrorCode, Refusal
from pykbroker_protocol.metadata.topics import PartitionChangeRecord

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pykbroker.controller.decision import Decision
    from pykbroker.controller_access import TopicPartition
    from pykbroker.metadata.image import ClusterImage, PartitionImage


def elect_leaders(
    image: ClusterImage, partitions: Sequence[TopicPartition], election_type: ElectionType
) -> Decision[list[Refusal | None]]:
    """Elects leaders; a partition that is named twice is elected once and has equal outcomes."""
    results = {it: _elect(image, it, election_type) for it in partitions}
    records = [it for it in results.values() if isinstance(it, PartitionChangeRecord)]
    refusals = {it: result for it, result in results.items() if isinstance(result, Refusal)}
    return bounded(records, [refusals.get(it) for it in partitions])


def _elect(
    image: ClusterImage, named: TopicPartition, election_type: ElectionType
) -> PartitionChangeRecord | Refusal:
    topic = image.topics.get(named.topic)
    if topic is None or not 0 <= named.partition < len(topic.partitions):
        return Refusal(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"No such partition {named.topic}-{named.partition}",
        )
    partition = topic.partitions[named.partition]
    if election_type is ElectionType.PREFERRED:
        return _preferred(image, topic.id, partition)
    return _unclean(image, topic.id, partition)


def _preferred(
    image: ClusterImage, topic_id: bytes, partition: PartitionImage
) -> PartitionChangeRecord | Refusal:
    preferred = partition.replicas[0]
    if partition.leader == preferred:
        return Refusal(ErrorCode.ELECTION_NOT_NEEDED)
    if preferred not in partition.in_sync or not _is_alive(image, preferred):
        return Refusal(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE)
    return PartitionChangeRecord(partition_id=partition.index, topic_id=topic_id, leader=preferred)


def _unclean(
    image: ClusterImage, topic_id: bytes, partition: PartitionImage
) -> PartitionChangeRecord | Refusal:
    if partition.leader != NO_LEADER:
        return Refusal(ErrorCode.ELECTION_NOT_NEEDED)
    alive = [it for it in partition.replicas if _is_alive(image, it)]
    if not alive:
        return Refusal(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE)
    complete = [it for it in alive if it in (*partition.in_sync, *partition.eligible)]
    leader = (complete or alive)[0]
    if leader in partition.in_sync:
        return PartitionChangeRecord(partition_id=partition.index, topic_id=topic_id, leader=leader)
    # Records that this leader lacks are lost: the other replicas must truncate to its log.
    return PartitionChangeRecord(
        partition_id=partition.index,
        topic_id=topic_id,
        leader=leader,
        isr=(leader,),
        eligible_leader_replicas=(),
        last_known_elr=(),
    )


def _is_alive(image: ClusterImage, broker_id: int) -> bool:
    broker = image.brokers.get(broker_id)
    return broker is not None and not broker.fenced and not broker.in_controlled_shutdown
