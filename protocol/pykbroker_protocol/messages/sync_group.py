"""SyncGroup: distributes the assignment of the group leader to the members of a classic group.

Served versions: 0-5
     0  first version
     1  adds throttle_time_ms (KIP-124)
     2  responses precede throttling (KIP-219)
     3  group_instance_id (KIP-345)
     4  flexible
     5  protocol type and name (KIP-559)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker_protocol.api_keys import ApiKey
from pykbroker_protocol.message import (
    Message,
    array,
    int16,
    int32,
    octets,
    string,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


class SyncGroupRequestAssignment(Message):
    member_id: str = string("0+")
    assignment: bytes = octets("0+")


class SyncGroupRequest(Message, api=ApiKey.SYNC_GROUP, versions="0-5", flexible="4+"):
    group_id: str = string("0+")
    generation_id: int = int32("0+")
    member_id: str = string("0+")
    group_instance_id: str | None = string("3+", nullable="3+", default=None)
    protocol_type: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    protocol_name: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    assignments: Sequence[SyncGroupRequestAssignment] = array(SyncGroupRequestAssignment, "0+")


class SyncGroupResponse(Message, api=ApiKey.SYNC_GROUP, versions="0-5", flexible="4+"):
    throttle_time_ms: int = int32("1+", default=0, ignorable=True)
    error_code: int = int16("0+")
    protocol_type: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    protocol_name: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    assignment: bytes = octets("0+")
