"""DescribeGroups: the state of classic groups, and who their members are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

if TYPE_CHECKING:
    from pykbroker.apis.node import Call


def handle(request: DescribeGroupsRequest, call: Call) -> DescribeGroupsResponse:
    return DescribeGroupsResponse(groups=[describe(group_id, call) for group_id in request.groups])


def describe(group_id: str, call: Call) -> DescribedGroup:
    log = call.node.groups.find(group_id)
    if not isinstance(log, ErrorCode):
        (described,) = log.state.describe_groups([group_id], version=call.version)
        return described
    return DescribedGroup(
        error_code=log,
        group_id=group_id,
        group_state="",
        protocol_type="",
        protocol_data="",
        members=(),
    )
