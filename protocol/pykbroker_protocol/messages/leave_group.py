"""LeaveGroup: removes members from a classic group.

Served versions: 0-5
     0  first version
     1  adds throttle_time_ms (KIP-124)
     2  responses precede throttling (KIP-219)
     3  several members per request, group_instance_id (KIP-345)
     4  flexible
     5  reason (KIP-800)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker_protocol.api_keys import ApiKey
from pykbroker_protocol.message import (
    Message,
    array,
    int16,
    int32,
    string,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


class MemberIdentity(Message):
    member_id: str = string("3+", default="")
    group_instance_id: str | None = string("3+", nullable="3+", default=None)
    reason: str | None = string("5+", nullable="5+", default=None, ignorable=True)


class LeaveGroupRequest(Message, api=ApiKey.LEAVE_GROUP, versions="0-5", flexible="4+"):
    group_id: str = string("0+")
    member_id: str = string("0-2", default="")
    members: Sequence[MemberIdentity] = array(MemberIdentity, "3+", default=())


class MemberResponse(Message):
    member_id: str = string("3+", default="")
    group_instance_id: str | None = string("3+", nullable="3+", default="")
    error_code: int = int16("3+", default=0)


class LeaveGroupResponse(Message, api=ApiKey.LEAVE_GROUP, versions="0-5", flexible="4+"):
    throttle_time_ms: int = int32("1+", default=0, ignorable=True)
    error_code: int = int16("0+")
    members: Sequence[MemberResponse] = array(MemberResponse, "3+", default=())
