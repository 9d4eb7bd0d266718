"""JoinGroup: joins or rejoins a classic group.

Served versions: 0-9
     0  first version
     1  rebalance_timeout_ms (KIP-62)
     2  adds throttle_time_ms (KIP-124)
     3  responses precede throttling (KIP-219)
     4  a first join without member id gets MEMBER_ID_REQUIRED (KIP-394)
     5  group_instance_id (KIP-345)
     6  flexible
     7  returns the protocol type (KIP-559)
     8  reason (KIP-800)
     9  skip_assignment (KIP-814)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker_protocol.api_keys import ApiKey
from pykbroker_protocol.message import (
    Message,
    array,
    boolean,
    int16,
    int32,
    octets,
    string,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


class JoinGroupRequestProtocol(Message):
    name: str = string("0+")
    metadata: bytes = octets("0+")


class JoinGroupRequest(Message, api=ApiKey.JOIN_GROUP, versions="0-9", flexible="6+"):
    group_id: str = string("0+")
    session_timeout_ms: int = int32("0+")
    rebalance_timeout_ms: int = int32("1+", default=-1, ignorable=True)
    member_id: str = string("0+")
    group_instance_id: str | None = string("5+", nullable="5+", default=None)
    protocol_type: str = string("0+")
    protocols: Sequence[JoinGroupRequestProtocol] = array(JoinGroupRequestProtocol, "0+")
    reason: str | None = string("8+", nullable="8+", default=None, ignorable=True)


class JoinGroupResponseMember(Message):
    member_id: str = string("0+")
    group_instance_id: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    metadata: bytes = octets("0+")


class JoinGroupResponse(Message, api=ApiKey.JOIN_GROUP, versions="0-9", flexible="6+"):
    throttle_time_ms: int = int32("2+", default=0, ignorable=True)
    error_code: int = int16("0+")
    generation_id: int = int32("0+", default=-1)
    protocol_type: str | None = string("7+", nullable="7+", default=None, ignorable=True)
    protocol_name: str | None = string("0+", nullable="7+")
    leader: str = string("0+")
    skip_assignment: bool = boolean("9+", default=False)
    member_id: str = string("0+")
    members: Sequence[JoinGroupResponseMember] = array(JoinGroupResponseMember, "0+")
