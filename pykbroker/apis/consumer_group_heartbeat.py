"""ConsumerGroupHeartbeat: joins, stays in or leaves a consumer group (KIP-848)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.metadata.features import GROUP_VERSION, GROUP_VERSION_LEVEL
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from pykbroker.apis.node import Call
    from pykbroker_protocol.message import Message
    from pykbroker_protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest


def handle(request: ConsumerGroupHeartbeatRequest, call: Call) -> Message | Awaitable[Message]:
    node = call.node

    def refused(code: ErrorCode) -> ConsumerGroupHeartbeatResponse:
        return ConsumerGroupHeartbeatResponse(
            error_code=code, error_message=None, member_epoch=0, heartbeat_interval_ms=0
        )

    if node.image.features.get(GROUP_VERSION, 0) < GROUP_VERSION_LEVEL:
        return refused(ErrorCode.UNSUPPORTED_VERSION)
    return node.groups.decide(
        request.group_id,
        lambda groups, ticket: groups.consumer_group_heartbeat(
            request,
            version=call.version,
            ticket=ticket,
            client_id=call.client_id or "",
            client_host=call.client_host,
            new_member_id="" if request.member_id else node.new_uuid_text(),
            now_ms=node.clock.now_ms(),
        ),
        refused,
    )
