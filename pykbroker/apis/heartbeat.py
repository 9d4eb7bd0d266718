"""Heartbeat: a member says that it is alive, and hears whether its group rebalances."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
        lambda code: HeartbeatResponse(error_code=code),
    )
