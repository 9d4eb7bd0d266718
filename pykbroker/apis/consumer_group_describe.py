"""ConsumerGroupDescribe: next-generation groups, their members, and where they are on the way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)

if TYPE_CHECKING:
    from pykbroker.apis.node import Call


def handle(request: ConsumerGroupDescribeRequest, call: Call) -> ConsumerGroupDescribeResponse:
    return ConsumerGroupDescribeResponse(groups=[describe(it, call) for it in request.group_ids])


def describe(group_id: str, call: Call) -> DescribedGroup:
    log = call.node.groups.find(group_id)
    if not isinstance(log, ErrorCode):
        (described,) = log.state.describe_consumer_groups([group_id])
        return described
    return DescribedGroup(
        error_code=log,
        group_id=group_id,
        group_state="",
        group_epoch=0,
        assignment_epoch=0,
        assignor_name="",
        members=(),
    )
