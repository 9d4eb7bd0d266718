"""InitProducerId: every idempotent producer gets an id that no other has, ever.

Ids come from blocks that the cluster's metadata hands out, so that none is given twice, not even
across a crash: what is left of a block when the node ends is not used again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.controller.controller import CannotCommit
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.init_producer_id import InitProducerIdResponse

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from pykbroker.apis.node import Call
    from pykbroker_protocol.messages.init_producer_id import InitProducerIdRequest

FIRST_EPOCH = 0
NO_PRODUCER_ID = NO_PRODUCER_EPOCH = -1


def handle(
    request: InitProducerIdRequest, call: Call
) -> InitProducerIdResponse | Awaitable[InitProducerIdResponse]:
    if not is_well_formed(request):
        return InitProducerIdResponse(
            error_code=ErrorCode.INVALID_REQUEST, producer_epoch=NO_PRODUCER_EPOCH
        )
    if request.transactional_id is not None:
        # No transaction coordinator is built yet, and FindCoordinator says so as well.
        return refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    producer_id = call.node.producer_ids.take()
    if producer_id is not None:
        return given(producer_id)
    return given_from_next_block(call)


def is_well_formed(request: InitProducerIdRequest) -> bool:
    """An id comes with its epoch, and a transactional id is not empty."""
    has_id, has_epoch = (
        request.producer_id != NO_PRODUCER_ID,
        request.producer_epoch != NO_PRODUCER_EPOCH,
    )
    return has_id == has_epoch and request.transactional_id != ""


async def given_from_next_block(call: Call) -> InitProducerIdResponse:
    try:
        return given(await call.node.producer_ids.take_from_next_block())
    except CannotCommit:
        return refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)


def given(producer_id: int) -> InitProducerIdResponse:
    return InitProducerIdResponse(
        error_code=ErrorCode.NONE, producer_id=producer_id, producer_epoch=FIRST_EPOCH
    )


def refused(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_epoch=NO_PRODUCER_EPOCH)
