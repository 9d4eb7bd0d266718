"""JoinGroup: joins a classic group; the response follows when the rebalance completes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.coordination.groups.classic_member import member_id_for
from pykbroker_protocol.message import Message
from pykbroker_protocol.messages.join_group import JoinGroupResponse

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from pykbroker.apis.node import Call
    from pykbroker_protocol.errors import ErrorCode
    from pykbroker_protocol.messages.join_group import JoinGroupRequest

NULL_PROTOCOL_SINCE_VERSION = 7


def handle(request: JoinGroupRequest, call: Call) -> Message | Awaitable[Message]:
    node = call.node
    member_id = request.member_id

    def refused(code: ErrorCode) -> JoinGroupResponse:
        return JoinGroupResponse(
            error_code=code, protocol_name=None, leader="", member_id=member_id, members=()
        )  # does not reference the request: a member can wait for minutes

    answer = node.groups.decide(
        request.group_id,
        lambda groups, ticket: groups.join_group(
            request,
            version=call.version,
            ticket=ticket,
            client_id=call.client_id or "",
            client_host=call.client_host,
            new_member_id=member_id_for(request, call.client_id or "", node.new_uuid()),
            now_ms=node.clock.now_ms(),
        ),
        refused,
    )
    if call.version >= NULL_PROTOCOL_SINCE_VERSION:
        return answer
    return (
        with_protocol_name(answer) if isinstance(answer, Message) else await_protocol_name(answer)
    )


def with_protocol_name(answer: Message) -> Message:
    """Replaces a null protocol name by "", because versions below 7 have no null."""
    assert isinstance(answer, JoinGroupResponse)
    return answer.replace(protocol_name="") if answer.protocol_name is None else answer


async def await_protocol_name(answer: Awaitable[Message]) -> Message:
    return with_protocol_name(await answer)
