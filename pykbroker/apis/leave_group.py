"""LeaveGroup: members go at once, without waiting for their sessions to end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker_protocol.messages.leave_group import LeaveGroupResponse

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from pykbroker.apis.node import Call
    from pykbroker_protocol.message import Message
    from pykbroker_protocol.messages.leave_group import LeaveGroupRequest


def handle(request: LeaveGroupRequest, call: Call) -> Message | Awaitable[Message]:
    return call.node.groups.decide(
        request.group_id,
        lambda groups, ticket: groups.leave_group(
            request, version=call.version, ticket=ticket, now_ms=call.node.clock.now_ms()
        ),
        lambda code: LeaveGroupResponse(error_code=code),
    )
