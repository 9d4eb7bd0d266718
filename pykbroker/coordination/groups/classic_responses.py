"""Builds the responses for members of a classic group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.heartbeat import HeartbeatResponse
from pykbroker_protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from pykbroker_protocol.messages.leave_group import LeaveGroupResponse, MemberResponse
from pykbroker_protocol.messages.sync_group import SyncGroupResponse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pykbroker.coordination.groups.classic_group import ClassicGroup
    from pykbroker.coordination.groups.classic_member import Member
    from pykbroker_protocol.messages.leave_group import MemberIdentity

BATCHED_LEAVE = 3


def refused_join(code: ErrorCode, member_id: str = "") -> JoinGroupResponse:
    return JoinGroupResponse(
        error_code=code, member_id=member_id, protocol_name=None, leader="", members=()
    )


def generation_response(
    group: ClassicGroup,
    member: Member,
    *,
    leader: str | None = None,
    skip_assignment: bool = False,
    as_follower: bool = False,
) -> JoinGroupResponse:
    """Returns the current generation; the leader gets all members, to assign partitions."""
    leads = group.leader == member.member_id and not as_follower
    return JoinGroupResponse(
        error_code=ErrorCode.NONE,
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol,
        leader=leader or group.leader or "",
        skip_assignment=skip_assignment,
        member_id=member.member_id,
        members=current_members(group) if leads else (),
    )


def current_members(group: ClassicGroup) -> list[JoinGroupResponseMember]:
    assert group.protocol is not None
    return [
        JoinGroupResponseMember(
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            metadata=member.protocols[group.protocol],
        )
        for member in group.members.values()
    ]


def refused_sync(code: ErrorCode) -> SyncGroupResponse:
    return SyncGroupResponse(error_code=code, assignment=b"")


def rejoin_response() -> SyncGroupResponse:
    return refused_sync(ErrorCode.REBALANCE_IN_PROGRESS)


def assignment_response(group: ClassicGroup, assignment: bytes) -> SyncGroupResponse:
    return SyncGroupResponse(
        error_code=ErrorCode.NONE,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol,
        assignment=assignment,
    )


def heartbeat_response(code: ErrorCode) -> HeartbeatResponse:
    return HeartbeatResponse(error_code=code)


def refused_leaving(code: ErrorCode) -> LeaveGroupResponse:
    return LeaveGroupResponse(error_code=code)


def unknown_members(leaving: Sequence[MemberIdentity]) -> list[MemberResponse]:
    """Returns UNKNOWN_MEMBER_ID for each leaving member of an unknown group."""
    return [
        MemberResponse(
            member_id=it.member_id,
            group_instance_id=it.group_instance_id,
            error_code=ErrorCode.UNKNOWN_MEMBER_ID,
        )
        for it in leaving
    ]


def leave_response(members: Sequence[MemberResponse], version: int) -> LeaveGroupResponse:
    """Builds the response; versions before 3 contain the result of a single member."""
    if version >= BATCHED_LEAVE:
        return LeaveGroupResponse(error_code=ErrorCode.NONE, members=members)
    return LeaveGroupResponse(error_code=members[0].error_code)
