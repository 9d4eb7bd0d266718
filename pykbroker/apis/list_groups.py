"""ListGroups: lists the groups of this coordinator, optionally by state and type."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.apis.slices import Slice, sliced
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse

if TYPE_CHECKING:
    from pykbroker.apis.node import Call
    from pykbroker.apis.slices import Slices


@sliced
def handle(request: ListGroupsRequest, call: Call) -> Slices[ListGroupsResponse]:
    coordinator = call.node.groups
    if coordinator.is_loading:
        return ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, groups=())
    count, groups = Slice(), []
    for log in list(coordinator.active()):
        listed = log.state.list_groups(request)
        groups.extend(listed)
        if count.is_full(1 + len(listed)):
            yield
    return ListGroupsResponse(error_code=ErrorCode.NONE, groups=groups)
