"""Passes a new producer id to decisions of the transaction coordinator that can need one."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pykbroker_protocol.errors import ErrorCode, Refusal

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pykbroker.apis.node import Call, Node
    from pykbroker_protocol.message import Message

    Decide = Callable[[int | None], Message | asyncio.Future[Message]]
    Refused = Callable[[ErrorCode], Message]


def decided_with_producer_id(
    transactional_id: str, call: Call, decide: Decide, refused: Refused
) -> Message | Awaitable[Message]:
    """Takes an id only if the decision can need it; this can allocate the next block of ids."""
    node = call.node
    if not node.transactions.needs_producer_id(transactional_id):
        return decide(None)
    producer_id = node.producer_ids.take()
    if producer_id is not None:
        return decide(producer_id)
    return decided_with_next_block(node, decide, refused)


async def decided_with_next_block(node: Node, decide: Decide, refused: Refused) -> Message:
    producer_id = await node.producer_ids.take_from_next_block()
    if isinstance(producer_id, Refusal):
        return refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    answer = decide(producer_id)
    return await answer if isinstance(answer, asyncio.Future) else answer
