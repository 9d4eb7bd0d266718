"""Leaders chosen on request: the preferred replica again, or any that is left."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from pykbroker.controller.decision import bounded
from pykbroker.metadata.image import NO_LEADER
from pykbroker_protocol.errors import ErrorCode, Refusal
from pykbroker_protocol.metadata.topics import PartitionChangeRecord

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pykbroker.controller.decision import Decision
    from pykbroker.metadata.image import ClusterImage, PartitionImage


class Election(IntEnum):
    """What makes a replica a leader."""

    PREFERRED = 0
    """It is the first of the partition's replicas, and in sync."""
    UNCLEAN = 1
    """Nobody leads and it is alive, whatever it may have missed."""


class Candidacy(NamedTuple):
    """A partition that shall have another leader."""

    topic: str
    partition: int


def elect_leaders(
    image: ClusterImage, asked: Sequence[Candidacy], election: Election
) -> Decision[list[Refusal | None]]:
    """Who is asked for twice is told twice of one election."""
    results = {place: _elect(image, place, election) for place in asked}
    records = [it for it in results.values() if isinstance(it, PartitionChangeRecord)]
    refusals = {place: it for place, it in results.items() if isinstance(it, Refusal)}
    return bounded(records, [refusals.get(place) for place in asked])


def every_partition(image: ClusterImage) -> Iterator[Candidacy]:
    for topic in image.topics.values():
        for partition in topic.partitions:
            yield Candidacy(topic.name, partition.index)


def _elect(
    image: ClusterImage, place: Candidacy, election: Election
) -> PartitionChangeRecord | Refusal:
    topic = image.topics.get(place.topic)
    if topic is None or not 0 <= place.partition < len(topic.partitions):
        return Refusal(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"No such partition {place.topic}-{place.partition}",
        )
    partition = topic.partitions[place.partition]
    if election is Election.PREFERRED:
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
    # What it never had is lost from here on: nobody else may come back with it.
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
    return broker is not None and not broker.fenced
