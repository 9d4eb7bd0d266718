"""InitProducerId: allocates a producer id, or bumps the epoch of a transactional id.

The controller allocates blocks of ids in the metadata log. After a restart the rest of a block is
not used, so that ids are unique also across crashes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.apis.with_producer_id import decided_with_producer_id
from pykbroker_protocol.errors import ErrorCode, Refusal
from pykbroker_protocol.messages.init_producer_id import InitProducerIdResponse

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from pykbroker.apis.node import Call
    from pykbroker_protocol.message import Message
    from pykbroker_protocol.messages.init_producer_id import InitProducerIdRequest

FIRST_EPOCH = 0
NO_PRODUCER_ID = NO_PRODUCER_EPOCH = -1


def handle(request: InitProducerIdRequest, call: Call) -> Message | Awaitable[Message]:
    if not is_well_formed(request):
        return refused(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is not None:
        return init_transactional_id(request, call)
    producer_id = call.node.producer_ids.take()
    if producer_id is not None:
        return allocated(producer_id)
    return allocate_from_next_block(call)


def is_well_formed(request: InitProducerIdRequest) -> bool:
    """Returns whether id and epoch are set together and the transactional id is not empty."""
    has_id, has_epoch = (
        request.producer_id != NO_PRODUCER_ID,
        request.producer_epoch != NO_PRODUCER_EPOCH,
    )
    return has_id == has_epoch and request.transactional_id != ""


# --- Transactional producers


def init_transactional_id(
    request: InitProducerIdRequest, call: Call
) -> Message | Awaitable[Message]:
    transactional_id = request.transactional_id or ""
    return decided_with_producer_id(
        transactional_id,
        call,
        lambda new_producer_id: call.node.transactions.decide(
            transactional_id,
            lambda transactions, ticket: transactions.init_producer_id(
                request,
                version=call.version,
                ticket=ticket,
                new_producer_id=new_producer_id,
                now_ms=call.node.clock.now_ms(),
            ),
            refused,
        ),
        refused,
    )


# --- Idempotent producers without transactions


async def allocate_from_next_block(call: Call) -> InitProducerIdResponse:
    producer_id = await call.node.producer_ids.take_from_next_block()
    if isinstance(producer_id, Refusal):
        return refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)  # clients retry
    return allocated(producer_id)


def allocated(producer_id: int) -> InitProducerIdResponse:
    return InitProducerIdResponse(
        error_code=ErrorCode.NONE, producer_id=producer_id, producer_epoch=FIRST_EPOCH
    )


def refused(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_epoch=NO_PRODUCER_EPOCH)
