"""ListGroups: every group that this node coordinates, or those of some states or types."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse

if TYPE_CHECKING:
    from pykbroker.apis.node import Call


def handle(request: ListGroupsRequest, call: Call) -> ListGroupsResponse:
    coordinator = call.node.groups
    if coordinator.is_loading:
        return ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, groups=())
    return ListGroupsResponse(
        error_code=ErrorCode.NONE,
        groups=[row for log in coordinator.active() for row in log.state.list_groups(request)],
    )
