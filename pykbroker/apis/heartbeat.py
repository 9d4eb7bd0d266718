"""Heartbeat: keeps a member of a classic group alive and reports a rebalance."""

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
    """Returns an error, but NONE during loading, which restarts all sessions, like Kafka."""
    is_loading = code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return HeartbeatResponse(error_code=ErrorCode.NONE if is_loading else code)
