"""Heartbeat: a member says that it is alive, and hears whether its group rebalances."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.heartbeat import HeartbeatResponse

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from pykbroker.apis.node import Call
    from pykbroker_protocol.message import Message
    from pykbroker_protocol.messages.heartbeat import HeartbeatRequest


def handle(request: HeartbeatRequest, call: Call) -> Message | Awaitable[Message]:
    return call.node.groups.decide(
        request.group_id,
        lambda groups, ticket: groups.heartbeat(
            request, ticket=ticket, now_ms=call.node.clock.now_ms()
        ),
        refused,
    )


def refused(code: ErrorCode) -> HeartbeatResponse:
    """While the coordinator loads it takes the member at its word; all sessions begin anew."""
    is_loading = code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return HeartbeatResponse(error_code=ErrorCode.NONE if is_loading else code)
