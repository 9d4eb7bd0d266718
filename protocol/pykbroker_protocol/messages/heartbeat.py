"""Heartbeat: keeps a member of a classic group alive.

Served versions: 0-4
     0  first version
     1  adds throttle_time_ms (KIP-124)
     2  responses precede throttling (KIP-219)
     3  group_instance_id (KIP-345)
     4  flexible
"""

from __future__ import annotations

from pykbroker_protocol.api_keys import ApiKey
from pykbroker_protocol.message import (
    Message,
    int16,
    int32,
    string,
)


class HeartbeatRequest(Message, api=ApiKey.HEARTBEAT, versions="0-4", flexible="4+"):
    group_id: str = string("0+")
    generation_id: int = int32("0+")
    member_id: str = string("0+")
    group_instance_id: str | None = string("3+", nullable="3+", default=None)


class HeartbeatResponse(Message, api=ApiKey.HEARTBEAT, versions="0-4", flexible="4+"):
    throttle_time_ms: int = int32("1+", default=0, ignorable=True)
    error_code: int = int16("0+")
