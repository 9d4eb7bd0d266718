"""Members of the classic protocol in a consumer group.

Their generation is the member epoch, and the coordinator computes their assignment. A heartbeat
returns REBALANCE_IN_PROGRESS when another reconciliation step is due. The member then rejoins with
its owned partitions and syncs, without waiting for other members. No member is leader.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.coordination.groups import consumer_classic_protocol as classic
from pykbroker.coordination.groups.classic_responses import refused_join, refused_sync
from pykbroker.coordination.groups.consumer_admission import admit
from pykbroker.coordination.groups.consumer_checks import full, identified
from pykbroker.coordination.groups.consumer_decision import REJOIN, SESSION, SYNC
from pykbroker.coordination.groups.consumer_departure import remove
from pykbroker.coordination.groups.consumer_heartbeat import update_and_reconcile
from pykbroker.coordination.groups.consumer_member import ConsumerMember, MemberState, numbers
from pykbroker.coordination.groups.consumer_migration import (
    classic_metadata,
    downgrade,
    is_due_for_downgrade,
    protocols_of,
)
from pykbroker.coordination.groups.consumer_subscription import bump_epoch
from pykbroker_protocol.compiler import MalformedMessage
from pykbroker_protocol.consumer_protocol import (
    CONSUMER_PROTOCOL_TYPE,
    ConsumerProtocolAssignment,
    read_subscription,
    read_version,
)
from pykbroker_protocol.errors import ErrorCode, Refusal
from pykbroker_protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from pykbroker_protocol.messages.join_group import JoinGroupResponse
from pykbroker_protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from pykbroker_protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pykbroker.coordination.groups.classic_member import JoinContext
    from pykbroker.coordination.groups.consumer_cache import GroupCache
    from pykbroker.coordination.groups.consumer_decision import Decision
    from pykbroker.coordination.groups.consumer_state import ConsumerGroupState
    from pykbroker.coordination.groups.consumer_topics import TopicsView
    from pykbroker_protocol.messages.join_group import JoinGroupRequest

MEMBER_ID_IS_REQUIRED_FROM = 4
"""First version in which a new member gets an id and joins again with it (KIP-394)."""
MEMBERS_LEAVE_TOGETHER_FROM = 3


# JoinGroup


def join(decision: Decision, cache: GroupCache, joining: JoinContext) -> JoinGroupResponse:
    request = joining.request
    is_newcomer = not request.member_id
    member_id = joining.new_member_id if is_newcomer else request.member_id
    if refusal := refusal_of_join(decision, member_id, request):
        return refused_join(refusal.code, request.member_id)
    if is_newcomer and needs_member_id(joining):
        return refused_join(ErrorCode.MEMBER_ID_REQUIRED, member_id)
    joined = admit_member(decision, cache, joining, member_id)
    if isinstance(joined, Refusal):
        return refused_join(joined.code, request.member_id)
    cache.rejoin_requested_at_ms.pop(member_id, None)
    return JoinGroupResponse(
        error_code=ErrorCode.NONE,
        generation_id=joined.epoch,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        protocol_name=request.protocols[0].name,
        leader="",
        member_id=member_id,
        members=(),
    )


def needs_member_id(joining: JoinContext) -> bool:
    is_static = joining.request.group_instance_id is not None
    return joining.version >= MEMBER_ID_IS_REQUIRED_FROM and not is_static


def refusal_of_join(
    decision: Decision, member_id: str, request: JoinGroupRequest
) -> Refusal | None:
    if refusal := full(decision.state, member_id, decision.settings):
        return refusal
    offered = {it.name for it in request.protocols}
    others = [
        {it.name for it in protocols_of(member)}
        for member in decision.state.members.values()
        if member.classic is not None and member.member_id != member_id
    ]
    is_shared = any(all(name in names for names in others) for name in offered)
    if request.protocol_type != CONSUMER_PROTOCOL_TYPE or not is_shared:
        return Refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if not decision.settings.migration_policy.allows_any:
        return Refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    return None


def admit_member(
    decision: Decision, cache: GroupCache, joining: JoinContext, member_id: str
) -> ConsumerMember | Refusal:
    request = joining.request
    try:
        subscription = read_subscription(request.protocols[0].metadata)
    except MalformedMessage:
        return Refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    replaced = predecessor_of(decision.state, request.group_instance_id, member_id)
    before = admit(decision, member_id, request.group_instance_id, by_force=True)
    if isinstance(before, Refusal):
        return before
    after = before._replace(
        instance_id=request.group_instance_id or before.instance_id,
        rack_id=subscription.rack_id or before.rack_id,
        client_id=joining.client_id,
        client_host=joining.client_host,
        topic_names=frozenset(subscription.topics),
        topic_regex="",
        rebalance_timeout_ms=joining.rebalance_timeout_ms,
        server_assignor=None,
        classic=classic_metadata(request.session_timeout_ms, joining.protocols.items()),
    )
    owned = classic.owned_partitions(subscription, decision.topics)
    joined = update_and_reconcile(decision, cache, before, after, owned)
    decision.cancel_timer(REJOIN, member_id)
    last_of_its_kind_was_replaced = replaced is not None and replaced.classic is None
    if last_of_its_kind_was_replaced and is_due_for_downgrade(
        decision.state, (), decision.settings
    ):
        downgrade(decision, (), rebalances=False)
    else:
        decision.set_timer(SESSION, member_id, after_ms=request.session_timeout_ms)
        decision.set_timer(SYNC, member_id, after_ms=joining.rebalance_timeout_ms)
    return joined


def predecessor_of(
    state: ConsumerGroupState, instance_id: str | None, member_id: str
) -> ConsumerMember | None:
    former_id = None if instance_id is None else state.instances.get(instance_id)
    return None if former_id in (None, member_id) else state.members[former_id]


# SyncGroup


def sync(decision: Decision, cache: GroupCache, request: SyncGroupRequest) -> SyncGroupResponse:
    member = classic_member(decision.state, request)
    if isinstance(member, ErrorCode):
        return refused_sync(member)
    protocol = protocols_of(member)[0]
    requested = (request.protocol_type, request.protocol_name)
    if any(
        it not in (None, known)
        for it, known in zip(requested, (CONSUMER_PROTOCOL_TYPE, protocol.name), strict=True)
    ):
        return refused_sync(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if must_rejoin_before_sync(decision.state, member):
        request_rejoin(decision, cache, member)
        return refused_sync(ErrorCode.REBALANCE_IN_PROGRESS)
    decision.cancel_timer(SYNC, member.member_id)
    keep_session(decision, member)
    return SyncGroupResponse(
        error_code=ErrorCode.NONE,
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignment=assignment_of(member, decision.topics),
    )


def must_rejoin_before_sync(state: ConsumerGroupState, member: ConsumerMember) -> bool:
    """Returns whether the member must rejoin; one that revokes partitions has rejoined already."""
    return state.epoch > member.epoch and member.state is not MemberState.UNREVOKED_PARTITIONS


def assignment_of(member: ConsumerMember, topics: TopicsView) -> bytes:
    version = read_version(protocols_of(member)[0].metadata, ConsumerProtocolAssignment)
    return classic.write_assignment(numbers(member.assigned), topics, version)


# Heartbeat


def heartbeat(
    decision: Decision, cache: GroupCache, request: HeartbeatRequest
) -> HeartbeatResponse:
    member = classic_member(decision.state, request)
    if isinstance(member, ErrorCode):
        return HeartbeatResponse(error_code=member)
    keep_session(decision, member)
    bump_epoch(decision, cache, because_of_members=False)
    if not needs_rejoin(decision.state, member):
        return HeartbeatResponse(error_code=ErrorCode.NONE)
    request_rejoin(decision, cache, member)
    return HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)


def needs_rejoin(state: ConsumerGroupState, member: ConsumerMember) -> bool:
    if member.epoch < state.epoch or member.state is MemberState.UNREVOKED_PARTITIONS:
        return True
    return member.state is MemberState.UNRELEASED_PARTITIONS and all(
        state.is_free_for(member.member_id, topic_id, partition)
        for topic_id, partitions in state.target_of(member.member_id).items()
        for partition in partitions
    )


def request_rejoin(decision: Decision, cache: GroupCache, member: ConsumerMember) -> None:
    """Requests a rejoin; the rejoin timeout counts from the first request."""
    requested_at_ms = cache.rejoin_requested_at_ms.setdefault(member.member_id, decision.now_ms)
    deadline_ms = requested_at_ms + member.rebalance_timeout_ms
    decision.set_timer(REJOIN, member.member_id, after_ms=deadline_ms - decision.now_ms)


def keep_session(decision: Decision, member: ConsumerMember) -> None:
    assert member.classic is not None
    decision.set_timer(SESSION, member.member_id, after_ms=member.classic.session_timeout_ms)


def classic_member(
    state: ConsumerGroupState, request: SyncGroupRequest | HeartbeatRequest
) -> ConsumerMember | ErrorCode:
    """Returns the member of a request, or the error for its id or generation."""
    member = identified(state, request.member_id, request.group_instance_id)
    if isinstance(member, Refusal):
        return member.code
    if member.classic is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return member if request.generation_id == member.epoch else ErrorCode.ILLEGAL_GENERATION


# LeaveGroup


def leave(
    decision: Decision, cache: GroupCache, request: LeaveGroupRequest, version: int
) -> LeaveGroupResponse:
    identities: Sequence[MemberIdentity] = request.members
    if version < MEMBERS_LEAVE_TOGETHER_FROM:
        identities = [MemberIdentity(member_id=request.member_id)]
    found = [member_to_leave(decision.state, it) for it in identities]
    leaving = {it.member_id: it for it in found if isinstance(it, ConsumerMember)}
    if leaving:
        remove(decision, cache, list(leaving.values()), "left or was removed")
    codes = [it.code if isinstance(it, Refusal) else ErrorCode.NONE for it in found]
    if version < MEMBERS_LEAVE_TOGETHER_FROM:
        return LeaveGroupResponse(error_code=codes[0])
    return LeaveGroupResponse(
        error_code=ErrorCode.NONE,
        members=[
            MemberResponse(
                member_id=it.member_id, group_instance_id=it.group_instance_id, error_code=code
            )
            for it, code in zip(identities, codes, strict=True)
        ],
    )


def member_to_leave(
    state: ConsumerGroupState, identity: MemberIdentity
) -> ConsumerMember | Refusal:
    """Finds the member; operators may give only the instance id."""
    member_id, instance_id = identity.member_id, identity.group_instance_id
    if instance_id is not None and not member_id:
        member_id = state.instances.get(instance_id, "")
    return identified(state, member_id, instance_id)
