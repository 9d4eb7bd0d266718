"""DescribeGroups: describes classic groups and their members.

Served versions: 0-6
     0  first version
     1  adds throttle_time_ms (KIP-124)
     2  responses precede throttling (KIP-219)
     3  authorized operations (KIP-430)
     4  group_instance_id of members (KIP-345)
     5  flexible
     6  error_message; GROUP_ID_NOT_FOUND for an unknown group (KIP-1043)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker_protocol.api_keys import ApiKey
from pykbroker_protocol.message import (
    STRING,
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


class DescribeGroupsRequest(Message, api=ApiKey.DESCRIBE_GROUPS, versions="0-6", flexible="5+"):
    groups: Sequence[str] = array(STRING, "0+")
    include_authorized_operations: bool = boolean("3+", default=False)


class DescribedGroupMember(Message):
    member_id: str = string("0+")
    group_instance_id: str | None = string("4+", nullable="4+", default=None, ignorable=True)
    client_id: str = string("0+")
    client_host: str = string("0+")
    member_metadata: bytes = octets("0+")
    member_assignment: bytes = octets("0+")


class DescribedGroup(Message):
    error_code: int = int16("0+")
    error_message: str | None = string("6+", nullable="6+", default=None)
    group_id: str = string("0+")
    group_state: str = string("0+")
    protocol_type: str = string("0+")
    protocol_data: str = string("0+")
    members: Sequence[DescribedGroupMember] = array(DescribedGroupMember, "0+")
    authorized_operations: int = int32("3+", default=-0x80000000)


class DescribeGroupsResponse(Message, api=ApiKey.DESCRIBE_GROUPS, versions="0-6", flexible="5+"):
    throttle_time_ms: int = int32("1+", default=0, ignorable=True)
    groups: Sequence[DescribedGroup] = array(DescribedGroup, "0+")
