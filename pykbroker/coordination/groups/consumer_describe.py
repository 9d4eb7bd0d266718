"""Builds ConsumerGroupDescribe responses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.coordination.groups.consumer_assignment import chosen_assignor
from pykbroker.coordination.groups.consumer_member import numbers
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.consumer_group_describe import (
    Assignment,
    DescribedGroup,
    Member,
    TopicPartitions,
)

if TYPE_CHECKING:
    from pykbroker.coordination.assignors.assignor import Assignment as Share
    from pykbroker.coordination.groups.consumer_member import ConsumerMember
    from pykbroker.coordination.groups.consumer_settings import ConsumerGroupSettings
    from pykbroker.coordination.groups.consumer_state import ConsumerGroupState
    from pykbroker.coordination.groups.consumer_topics import TopicsView

NONE = frozenset[int]()
CLASSIC_MEMBER, CONSUMER_MEMBER = 0, 1
"""Protocol of a member, as numbered in the response."""


def describe(
    state: ConsumerGroupState, topics: TopicsView, settings: ConsumerGroupSettings
) -> DescribedGroup:
    return DescribedGroup(
        error_code=ErrorCode.NONE,
        group_id=state.group_id,
        group_state=state.state.value,
        group_epoch=state.epoch,
        assignment_epoch=state.assignment_epoch,
        assignor_name=chosen_assignor(state, settings),
        members=[describe_member(state, it, topics) for it in state.members.values()],
    )


def describe_missing(group_id: str, *, is_classic: bool) -> DescribedGroup:
    words = "is not a consumer group" if is_classic else "not found"
    return DescribedGroup(
        error_code=ErrorCode.GROUP_ID_NOT_FOUND,
        error_message=f"Group {group_id} {words}.",
        group_id=group_id,
        group_state="",
        group_epoch=0,
        assignment_epoch=0,
        assignor_name="",
        members=(),
    )


def describe_member(
    state: ConsumerGroupState, member: ConsumerMember, topics: TopicsView
) -> Member:
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topic_names),
        subscribed_topic_regex=member.topic_regex,
        assignment=described(held(member), topics),
        target_assignment=described(state.target_of(member.member_id), topics),
        member_type=CONSUMER_MEMBER if member.classic is None else CLASSIC_MEMBER,
    )


def held(member: ConsumerMember) -> Share:
    """Returns the assigned partitions, including those not revoked yet."""
    assigned, revoking = numbers(member.assigned), numbers(member.revoking)
    ids = assigned.keys() | revoking.keys()
    return {it: assigned.get(it, NONE) | revoking.get(it, NONE) for it in sorted(ids)}


def described(share: Share, topics: TopicsView) -> Assignment:
    """Converts topic ids to names; deleted topics are omitted."""
    return Assignment(
        topic_partitions=[
            TopicPartitions(
                topic_id=topic_id, topic_name=topic.name, partitions=sorted(share[topic_id])
            )
            for topic_id in share
            if (topic := topics.topic_of_id(topic_id)) is not None
        ]
    )
