"""How far a group has read: its committed offsets are fetched, written, forgotten."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final, NamedTuple

from pykbroker.cli.coordinator import Coordinator
from pykbroker.cli.refusals import error_of, raise_if_refused
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from pykbroker_protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from pykbroker_protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pykbroker.cli.client import Client

LAST_VERSION_BY_NAME: Final = 9
NO_GENERATION: Final = -1
NO_OFFSET: Final = -1


class Place(NamedTuple):
    """One partition of one topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class Committed(NamedTuple):
    offset: int
    leader_epoch: int
    metadata: str


class Membership(NamedTuple):
    """As whom offsets are committed; nobody in particular, where the group has no members."""

    member_id: str = ""
    generation: int = NO_GENERATION


NOBODY: Final = Membership()


async def committed_offsets(client: Client, group_id: str) -> dict[Place, Committed]:
    """All that a group has committed; of a group that does not exist, nothing."""
    response = await Coordinator(client, group_id).ask(
        OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group_id, topics=None)]),
        OffsetFetchResponse,
        lambda answer: answer.groups[0].error_code,
        version_max=LAST_VERSION_BY_NAME,
    )
    group = response.groups[0]
    if group.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
        return {}
    raise_if_refused(group.error_code)
    return {
        Place(topic.name, it.partition_index): Committed(
            it.committed_offset, it.committed_leader_epoch, it.metadata or ""
        )
        for topic in group.topics
        for it in topic.partitions
        if it.committed_offset != NO_OFFSET
    }


async def commit_offsets(
    coordinator: Coordinator,
    group_id: str,
    offsets: Mapping[Place, int],
    membership: Membership = NOBODY,
) -> dict[Place, ErrorCode]:
    """Write how far the group has read; what was answered for each partition."""
    parts = {
        topic: [
            OffsetCommitRequestPartition(
                partition_index=it.partition, committed_offset=offsets[it], committed_metadata=""
            )
            for it in places
        ]
        for topic, places in by_topic(offsets).items()
    }
    response = await coordinator.ask(
        OffsetCommitRequest(
            group_id=group_id,
            generation_id_or_member_epoch=membership.generation,
            member_id=membership.member_id,
            topics=[OffsetCommitRequestTopic(name=it, partitions=parts[it]) for it in parts],
        ),
        OffsetCommitResponse,
        lambda answer: answer.topics[0].partitions[0].error_code,
        version_max=LAST_VERSION_BY_NAME,
    )
    return {
        Place(topic.name, it.partition_index): error_of(it.error_code)
        for topic in response.topics
        for it in topic.partitions
    }


async def delete_offsets(
    client: Client, group_id: str, places: Iterable[Place]
) -> dict[Place, ErrorCode]:
    """Forget how far the group has read; what was answered for each partition."""
    response = await Coordinator(client, group_id).ask(
        OffsetDeleteRequest(
            group_id=group_id,
            topics=[
                OffsetDeleteRequestTopic(
                    name=topic,
                    partitions=[
                        OffsetDeleteRequestPartition(partition_index=it) for _, it in wanted
                    ],
                )
                for topic, wanted in by_topic(places).items()
            ],
        ),
        OffsetDeleteResponse,
        lambda answer: answer.error_code,
    )
    raise_if_refused(response.error_code)
    return {
        Place(topic.name, it.partition_index): error_of(it.error_code)
        for topic in response.topics
        for it in topic.partitions
    }


def by_topic(places: Iterable[Place]) -> dict[str, list[Place]]:
    found: dict[str, list[Place]] = defaultdict(list)
    for place in sorted(places):
        found[place.topic].append(place)
    return dict(found)
