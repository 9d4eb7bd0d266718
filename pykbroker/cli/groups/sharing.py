"""Shares the partitions of topics out among the members of a classic group, by runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pykbroker.coordination.assignors.question import Subscriber, TopicToAssign
from pykbroker.coordination.assignors.range import assign_range

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pykbroker.cli.groups.member_protocol import Shares
    from pykbroker_protocol.messages.metadata import MetadataResponseTopic


class Reader(NamedTuple):
    """A member, and the topics that it reads."""

    member_id: str
    instance_id: str | None
    topics: Sequence[str]


def share_by_range(
    readers: Iterable[Reader], topics: Sequence[MetadataResponseTopic]
) -> dict[str, Shares]:
    """Everybody's partitions; topics that are not there are left out."""
    ids = {topic.name: topic.topic_id for topic in topics}
    names = {topic.topic_id: topic.name or "" for topic in topics}
    subscribers = [
        Subscriber(
            member_id=it.member_id,
            instance_id=it.instance_id,
            topic_ids=frozenset(ids[name] for name in it.topics if name in ids),
        )
        for it in readers
    ]
    sizes = {it.topic_id: TopicToAssign(partition_count=len(it.partitions)) for it in topics}
    return {
        member_id: {names[it]: sorted(partitions) for it, partitions in assignment.items()}
        for member_id, assignment in assign_range(subscribers, sizes).items()
    }
