"""Committed offsets of a group: OffsetFetch, OffsetCommit and OffsetDelete at its coordinator."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final, NamedTuple

from pykbroker.client.coordinator import Coordinator
from pykbroker.client.errors import error_of, only, raise_if_error
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

    from pykbroker.client.cluster_client import ClusterClient

LAST_VERSION_BY_NAME: Final = 9
NO_GENERATION: Final = -1
NO_OFFSET: Final = -1


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class Committed(NamedTuple):
    offset: int
    leader_epoch: int
    metadata: str


class Membership(NamedTuple):
    """Member id and generation of a commit; the defaults are for a group without members."""

    member_id: str = ""
    generation: int = NO_GENERATION


NO_MEMBER: Final = Membership()


async def committed_offsets(
    client: ClusterClient, group_id: str
) -> dict[TopicPartition, Committed]:
    """Returns all committed offsets of a group; none if the group does not exist."""
    response = await Coordinator(client, group_id).request(
        OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group_id, topics=None)]),
        OffsetFetchResponse,
        lambda response: only(response.groups, "groups").error_code,
        version_max=LAST_VERSION_BY_NAME,
    )
    group = only(response.groups, "groups")
    if group.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
        return {}
    raise_if_error(group.error_code)
    return {
        TopicPartition(topic.name, it.partition_index): Committed(
            it.committed_offset, it.committed_leader_epoch, it.metadata or ""
        )
        for topic in group.topics
        for it in topic.partitions
        if it.committed_offset != NO_OFFSET
    }


async def commit_offsets(
    coordinator: Coordinator,
    group_id: str,
    offsets: Mapping[TopicPartition, int],
    membership: Membership = NO_MEMBER,
) -> dict[TopicPartition, ErrorCode]:
    """Commits offsets and returns the error of each partition, NONE included."""
    parts = {
        topic: [
            OffsetCommitRequestPartition(
                partition_index=it.partition, committed_offset=offsets[it], committed_metadata=""
            )
            for it in partitions
        ]
        for topic, partitions in by_topic(offsets).items()
    }
    response = await coordinator.request(
        OffsetCommitRequest(
            group_id=group_id,
            generation_id_or_member_epoch=membership.generation,
            member_id=membership.member_id,
            topics=[OffsetCommitRequestTopic(name=it, partitions=parts[it]) for it in parts],
        ),
        OffsetCommitResponse,
        first_error_code,
        version_max=LAST_VERSION_BY_NAME,
    )
    return errors_by_partition(response)


def first_error_code(response: OffsetCommitResponse) -> int:
    """The error of the first partition: errors about the coordinator are in all partitions."""
    return next((it.error_code for topic in response.topics for it in topic.partitions), 0)


async def delete_offsets(
    client: ClusterClient, group_id: str, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, ErrorCode]:
    """Deletes committed offsets and returns the error of each partition, NONE included."""
    response = await Coordinator(client, group_id).request(
        OffsetDeleteRequest(
            group_id=group_id,
            topics=[
                OffsetDeleteRequestTopic(
                    name=topic,
                    partitions=[OffsetDeleteRequestPartition(partition_index=it) for _, it in own],
                )
                for topic, own in by_topic(partitions).items()
            ],
        ),
        OffsetDeleteResponse,
        lambda response: response.error_code,
    )
    raise_if_error(response.error_code)
    return errors_by_partition(response)


def errors_by_partition(
    response: OffsetCommitResponse | OffsetDeleteResponse,
) -> dict[TopicPartition, ErrorCode]:
    return {
        TopicPartition(topic.name, it.partition_index): error_of(it.error_code)
        for topic in response.topics
        for it in topic.partitions
    }


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[TopicPartition]]:
    found: dict[str, list[TopicPartition]] = defaultdict(list)
    for partition in sorted(partitions):
        found[partition.topic].append(partition)
    return dict(found)
