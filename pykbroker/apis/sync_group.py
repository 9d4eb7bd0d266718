"""SyncGroup: stores the assignment of the group leader and returns that of the member."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker_protocol.messages.sync_group import SyncGroupResponse

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from pykbroker.apis.node import Call
    from pykbroker_protocol.message import Message
    from pykbroker_protocol.messages.sync_group import SyncGroupRequest


def handle(request: SyncGroupRequest, call: Call) -> Message | Awaitable[Message]:
    return call.node.groups.decide(
        request.group_id,
        lambda groups, ticket: groups.sync_group(
            request, version=call.version, ticket=ticket, now_ms=call.node.clock.now_ms()
        ),
        lambda code: SyncGroupResponse(error_code=code, assignment=b""),
    )
