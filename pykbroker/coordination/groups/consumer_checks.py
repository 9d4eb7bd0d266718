"""Validates requests of members, with Apache Kafka's error messages.

Error codes and the order of checks are those of Apache Kafka, because clients depend on them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.coordination.groups.consumer_member import (
    JOINING,
    LEAVING_TEMPORARILY,
    ConsumerMember,
    is_within,
)
from pykbroker_protocol.errors import ErrorCode, Refusal

if TYPE_CHECKING:
    from pykbroker.coordination.assignors.assignor import Assignment
    from pykbroker.coordination.groups.consumer_settings import ConsumerGroupSettings
    from pykbroker.coordination.groups.consumer_state import ConsumerGroupState
    from pykbroker_protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

MEMBER_MAKES_ITS_ID_FROM = 1
"""First version of the heartbeat in which the client chooses the member id."""


def malformed(
    request: ConsumerGroupHeartbeatRequest, version: int, settings: ConsumerGroupSettings
) -> Refusal | None:
    """Returns the error of a malformed heartbeat, independent of the group."""
    if words := invalid_field(request, version):
        return Refusal(ErrorCode.INVALID_REQUEST, words)
    if request.server_assignor not in (None, *settings.assignors):
        supported = ", ".join(settings.assignors)
        return Refusal(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {request.server_assignor} is not supported. "
            f"Supported assignors: {supported}.",
        )
    return None


def invalid_field(request: ConsumerGroupHeartbeatRequest, version: int) -> str | None:
    member_id_is_due = version >= MEMBER_MAKES_ITS_ID_FROM or request.member_epoch != JOINING
    texts = {
        "MemberId": request.member_id if member_id_is_due else None,
        "GroupId": request.group_id,
        "InstanceId": request.instance_id,
        "RackId": request.rack_id,
    }
    for name, text in texts.items():
        if text is not None and not text.strip():
            return f"{name} can't be empty."
    if request.member_epoch == JOINING:
        return missing_join_field(request)
    if request.member_epoch == LEAVING_TEMPORARILY and request.instance_id is None:
        return "InstanceId can't be null."
    return "MemberEpoch is invalid." if request.member_epoch < LEAVING_TEMPORARILY else None


def missing_join_field(request: ConsumerGroupHeartbeatRequest) -> str | None:
    if request.rebalance_timeout_ms == -1:
        return "RebalanceTimeoutMs must be provided in first request."
    if request.topic_partitions is None or request.topic_partitions:
        return "TopicPartitions must be empty when (re-)joining."
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        return (
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null "
            "when (re-)joining."
        )
    return None


def full(
    state: ConsumerGroupState, member_id: str, settings: ConsumerGroupSettings
) -> Refusal | None:
    if member_id in state.members or len(state.members) < settings.members_max:
        return None
    return Refusal(
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        f"The consumer group has reached its maximum capacity of {settings.members_max} members.",
    )


def unknown_member(group_id: str, member_id: str) -> Refusal:
    return Refusal(
        ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group_id}."
    )


def unknown_instance(instance_id: str) -> Refusal:
    return Refusal(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")


def fenced_instance(instance_id: str, member_id: str, owner_id: str) -> Refusal:
    return Refusal(
        ErrorCode.FENCED_INSTANCE_ID,
        f"Static member {member_id} with instance id {instance_id} "
        f"was fenced by member {owner_id}.",
    )


def unreleased_instance(instance_id: str, member_id: str, owner_id: str) -> Refusal:
    return Refusal(
        ErrorCode.UNRELEASED_INSTANCE_ID,
        f"Static member {member_id} with instance id {instance_id} cannot join the group "
        f"because the instance id is owned by {owner_id} member.",
    )


def identified(
    state: ConsumerGroupState, member_id: str, instance_id: str | None
) -> ConsumerMember | Refusal:
    """Returns the member of a request, or the error."""
    if instance_id is not None:
        owner_id = state.instances.get(instance_id)
        if owner_id is None:
            return unknown_instance(instance_id)
        if owner_id != member_id:
            return fenced_instance(instance_id, member_id, owner_id)
    return state.members.get(member_id) or unknown_member(state.group_id, member_id)


def fenced_epoch(member: ConsumerMember, epoch: int, owned: Assignment | None) -> Refusal | None:
    """Accepts the previous epoch from a member that missed a response; else returns the error."""
    if epoch == member.epoch:
        return None
    if epoch < member.epoch:
        lost_an_answer = owned is not None and is_within(owned, member.assigned)
        if epoch == member.previous_epoch and lost_an_answer:
            return None
    size = "greater" if epoch > member.epoch else "smaller"
    return Refusal(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {size} member epoch ({epoch}) than the one known by "
        f"the group coordinator ({member.epoch}). The member must abandon all its partitions "
        "and rejoin.",
    )
