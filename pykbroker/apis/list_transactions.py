"""ListTransactions: lists the transactional ids of this coordinator that match the filters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.apis.slices import sliced
from pykbroker.coordination.transactions.listing import listed_in_slices
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.list_transactions import ListTransactionsResponse

if TYPE_CHECKING:
    from pykbroker.apis.node import Call
    from pykbroker.apis.slices import Slices
    from pykbroker_protocol.message import Message
    from pykbroker_protocol.messages.list_transactions import ListTransactionsRequest


@sliced
def handle(request: ListTransactionsRequest, call: Call) -> Slices[Message]:
    coordinator = call.node.transactions
    if coordinator.is_loading:
        return ListTransactionsResponse(
            error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
            unknown_state_filters=(),
            transaction_states=(),
        )
    found = [it for log in coordinator.active() for it in log.state.transactions.values()]
    return (yield from listed_in_slices(found, request, call.node.clock.now_ms()))
