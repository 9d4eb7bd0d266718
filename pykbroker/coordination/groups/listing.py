"""ListGroups with its filters, and DescribeGroups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.coordination.groups.classic_group import ClassicGroup
from pykbroker.coordination.groups.classic_state import GroupState
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.describe_groups import DescribedGroup, DescribedGroupMember
from pykbroker_protocol.messages.list_groups import ListedGroup

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pykbroker.coordination.groups.classic_member import Member
    from pykbroker.coordination.groups.group import Group

NOT_FOUND_IS_AN_ERROR_SINCE = 6


def list_groups(
    groups: Iterable[Group], states: Iterable[str], kinds: Iterable[str]
) -> list[ListedGroup]:
    """Lists groups. An empty filter passes all, an unknown name none; case is ignored."""
    states = {it.strip().lower() for it in states}
    kinds = {it.strip().lower() for it in kinds}
    return [
        ListedGroup(
            group_id=group.group_id,
            protocol_type=group.protocol_type,
            group_state=group.state_name,
            group_type=group.kind.value,
        )
        for group in groups
        if (not states or group.state_name.lower() in states)
        and (not kinds or group.kind.value in kinds)
    ]


def describe_group(group_id: str, group: Group | None, version: int) -> DescribedGroup:
    if not isinstance(group, ClassicGroup):
        return describe_missing(group_id, version, is_of_other_kind=group is not None)
    stable = group.state is GroupState.STABLE
    return DescribedGroup(
        error_code=ErrorCode.NONE,
        group_id=group_id,
        group_state=group.state_name,
        protocol_type=group.protocol_type,
        protocol_data=(group.protocol or "") if stable else "",
        members=[
            describe_member(it, group.protocol if stable else None) for it in group.members.values()
        ],
    )


def describe_missing(group_id: str, version: int, *, is_of_other_kind: bool) -> DescribedGroup:
    """Describes a missing group; older versions describe it as dead instead of an error."""
    is_error = version >= NOT_FOUND_IS_AN_ERROR_SINCE
    words = "is not a classic group" if is_of_other_kind else "not found"
    return DescribedGroup(
        error_code=ErrorCode.GROUP_ID_NOT_FOUND if is_error else ErrorCode.NONE,
        error_message=f"Group {group_id} {words}." if is_error else None,
        group_id=group_id,
        group_state=GroupState.DEAD.value,
        protocol_type="",
        protocol_data="",
        members=(),
    )


def describe_member(member: Member, protocol: str | None) -> DescribedGroupMember:
    """Describes a member; its assignment stays valid until a rebalance has a new one."""
    return DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=b"" if protocol is None else member.protocols[protocol],
        member_assignment=member.assignment,
    )
