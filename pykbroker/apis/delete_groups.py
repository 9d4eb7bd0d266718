"""DeleteGroups: deletes groups without members and their committed offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker_protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)

if TYPE_CHECKING:
    from pykbroker.apis.node import Call


async def handle(request: DeleteGroupsRequest, call: Call) -> DeleteGroupsResponse:
    names = dict.fromkeys(request.groups_names)
    return DeleteGroupsResponse(results=[await delete(name, call) for name in names])


async def delete(group_id: str, call: Call) -> DeletableGroupResult:
    node = call.node
    response = await node.groups.decide_and_wait(
        group_id,
        lambda groups, ticket: groups.delete_groups(
            [group_id], ticket=ticket, now_ms=node.clock.now_ms()
        ),
        lambda code: DeleteGroupsResponse(
            results=[DeletableGroupResult(group_id=group_id, error_code=code)]
        ),
    )
    assert isinstance(response, DeleteGroupsResponse)
    (result,) = response.results
    return result
