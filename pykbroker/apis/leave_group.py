"""LeaveGroup: removes members from a group before their session timeout."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.apis.slices import next_turn
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.message import Message
from pykbroker_protocol.messages.leave_group import LeaveGroupResponse

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from pykbroker.apis.node import Call
    from pykbroker_protocol.messages.leave_group import LeaveGroupRequest, MemberResponse


MEMBERS_AT_ONCE_MAX = 500
"""More members are removed in several decisions; other requests are served in between."""


def handle(request: LeaveGroupRequest, call: Call) -> Message | Awaitable[Message]:
    if len(request.members) > MEMBERS_AT_ONCE_MAX:
        return leave_in_slices(request, call)
    return leave(request, call)


def leave(request: LeaveGroupRequest, call: Call) -> Message | Awaitable[Message]:
    return call.node.groups.decide(
        request.group_id,
        lambda groups, ticket: groups.leave_group(
            request, version=call.version, ticket=ticket, now_ms=call.node.clock.now_ms()
        ),
        lambda code: LeaveGroupResponse(error_code=code),
    )


async def leave_in_slices(request: LeaveGroupRequest, call: Call) -> Message:
    answers: list[MemberResponse] = []
    for first in range(0, len(request.members), MEMBERS_AT_ONCE_MAX):
        some = request.members[first : first + MEMBERS_AT_ONCE_MAX]
        answer = leave(request.replace(members=some), call)
        response = answer if isinstance(answer, Message) else await answer
        assert isinstance(response, LeaveGroupResponse)
        if response.error_code:
            return response
        answers += response.members
        await next_turn()
    return LeaveGroupResponse(error_code=ErrorCode.NONE, members=answers)
