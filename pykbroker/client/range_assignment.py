"""Range assignment for the leader of a classic group, with the assignor of the coordinator."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pykbroker.coordination.assignors.assignor import Subscriber, TopicToAssign
from pykbroker.coordination.assignors.range import assign_range

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pykbroker_protocol.consumer_protocol import PartitionsByTopic
    from pykbroker_protocol.messages.metadata import MetadataResponseTopic


class Subscription(NamedTuple):
    """A member and the topics it subscribes to."""

    member_id: str
    instance_id: str | None
    topics: Sequence[str]


def assign_ranges(
    subscriptions: Iterable[Subscription], topics: Sequence[MetadataResponseTopic]
) -> dict[str, PartitionsByTopic]:
    """Returns the partitions of each member; topics that do not exist are ignored."""
    ids = {topic.name: topic.topic_id for topic in topics}
    names = {topic.topic_id: topic.name or "" for topic in topics}
    subscribers = [
        Subscriber(
            member_id=it.member_id,
            instance_id=it.instance_id,
            topic_ids=frozenset(ids[name] for name in it.topics if name in ids),
        )
        for it in subscriptions
    ]
    sizes = {it.topic_id: TopicToAssign(partition_count=len(it.partitions)) for it in topics}
    return {
        member_id: {names[it]: sorted(partitions) for it, partitions in assignment.items()}
        for member_id, assignment in assign_range(subscribers, sizes).items()
    }
