"""Describes a group of either protocol: state, members and assignments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pykbroker.client.coordinator import Coordinator
from pykbroker.client.errors import ApiError, only, raise_if_error
from pykbroker_protocol.api_keys import ApiKey
from pykbroker_protocol.compiler import MalformedMessage
from pykbroker_protocol.consumer_protocol import (
    CONSUMER_PROTOCOL_TYPE,
    read_assignment,
    read_subscription,
)
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from pykbroker_protocol.messages.describe_groups import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

if TYPE_CHECKING:
    from pykbroker.client.cluster_client import ClusterClient
    from pykbroker_protocol.consumer_protocol import PartitionsByTopic
    from pykbroker_protocol.messages import consumer_group_describe, describe_groups

DEAD: Final = "Dead"
WITHOUT_MEMBERS: Final = frozenset({"Empty", DEAD})


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMember:
    """A member of a group. Topics and assignment are None if their format is unknown."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    epoch: int | None
    topics: list[str] | None
    topic_regex: str | None
    assignment: PartitionsByTopic | None
    target: PartitionsByTopic | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDescription:
    group_id: str
    type: str
    state: str
    protocol: str
    assignor: str
    epoch: int | None
    coordinator: int
    members: list[GroupMember]

    @property
    def has_members(self) -> bool:
        return self.state not in WITHOUT_MEMBERS


async def describe_group(client: ClusterClient, group_id: str) -> GroupDescription:
    """Requests a group of the consumer protocol first, then one of the classic protocol."""
    coordinator = Coordinator(client, group_id)
    if (await client.broker()).offers(ApiKey.CONSUMER_GROUP_DESCRIBE):
        found = await described_consumer_group(coordinator, group_id)
        if found is not None:
            return found
    return await described_classic_group(coordinator, group_id)


async def described_consumer_group(
    coordinator: Coordinator, group_id: str
) -> GroupDescription | None:
    response = await coordinator.request(
        ConsumerGroupDescribeRequest(group_ids=[group_id], include_authorized_operations=False),
        ConsumerGroupDescribeResponse,
        lambda response: only(response.groups, "groups").error_code,
    )
    group = only(response.groups, "groups")
    if group.error_code in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION):
        return None
    raise_if_error(group.error_code, group.error_message)
    return GroupDescription(
        group_id=group_id,
        type="consumer",
        state=group.group_state,
        protocol=CONSUMER_PROTOCOL_TYPE,
        assignor=group.assignor_name,
        epoch=group.group_epoch,
        coordinator=await coordinator.node_id(),
        members=[consumer_member(it) for it in group.members],
    )


def consumer_member(member: consumer_group_describe.Member) -> GroupMember:
    return GroupMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        host=member.client_host,
        epoch=member.member_epoch,
        topics=list(member.subscribed_topic_names),
        topic_regex=member.subscribed_topic_regex or None,
        assignment=shares_of(member.assignment),
        target=shares_of(member.target_assignment),
    )


def shares_of(assignment: consumer_group_describe.Assignment) -> PartitionsByTopic:
    return {it.topic_name: sorted(it.partitions) for it in assignment.topic_partitions}


async def described_classic_group(coordinator: Coordinator, group_id: str) -> GroupDescription:
    response = await coordinator.request(
        DescribeGroupsRequest(groups=[group_id]),
        DescribeGroupsResponse,
        lambda response: only(response.groups, "groups").error_code,
    )
    group = only(response.groups, "groups")
    raise_if_error(group.error_code, group.error_message)
    if group.group_state == DEAD:  # older brokers return this state instead of GROUP_ID_NOT_FOUND
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
    return GroupDescription(
        group_id=group_id,
        type="classic",
        state=group.group_state,
        protocol=group.protocol_type,
        assignor=group.protocol_data,
        epoch=None,
        coordinator=await coordinator.node_id(),
        members=[classic_member(it, group.protocol_type) for it in group.members],
    )


def classic_member(member: describe_groups.DescribedGroupMember, protocol_type: str) -> GroupMember:
    topics: list[str] | None = None
    assignment: PartitionsByTopic | None = None
    if protocol_type == CONSUMER_PROTOCOL_TYPE:
        try:
            assignment = read_assignment(member.member_assignment)
            metadata = member.member_metadata
            topics = list(read_subscription(metadata).topics) if metadata else []
        except MalformedMessage:
            topics, assignment = None, None  # the bytes have an unknown format
    return GroupMember(
        member_id=member.member_id,
        instance_id=member.group_instance_id,
        client_id=member.client_id,
        host=member.client_host,
        epoch=None,
        topics=topics,
        topic_regex=None,
        assignment=assignment,
        target=None,
    )
