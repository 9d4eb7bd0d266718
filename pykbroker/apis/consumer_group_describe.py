"""ConsumerGroupDescribe: returns state, members and assignments of consumer groups (KIP-848)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.apis.operations import ALL_ON_A_GROUP
from pykbroker.apis.slices import Slice, sliced
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)

if TYPE_CHECKING:
    from pykbroker.apis.node import Call
    from pykbroker.apis.slices import Slices


@sliced
def handle(
    request: ConsumerGroupDescribeRequest, call: Call
) -> Slices[ConsumerGroupDescribeResponse]:
    count, groups = Slice(), []
    for group_id in request.group_ids:
        group = describe(group_id, call)
        groups.append(with_operations(group) if request.include_authorized_operations else group)
        if count.is_full(1 + len(group.members)):
            yield
    return ConsumerGroupDescribeResponse(groups=groups)


def with_operations(group: DescribedGroup) -> DescribedGroup:
    """Adds authorized operations to groups without an error."""
    if group.error_code:
        return group
    return group.replace(authorized_operations=ALL_ON_A_GROUP)


def describe(group_id: str, call: Call) -> DescribedGroup:
    log = call.node.groups.find(group_id) if group_id else ErrorCode.INVALID_GROUP_ID
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
