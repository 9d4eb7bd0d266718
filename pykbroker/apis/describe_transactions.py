"""DescribeTransactions: returns producer, state and partitions of transactional ids."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.apis.slices import Slice, sliced
from pykbroker.coordination.transactions.listing import refused
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)

if TYPE_CHECKING:
    from pykbroker.apis.node import Call
    from pykbroker.apis.slices import Slices


@sliced
def handle(
    request: DescribeTransactionsRequest, call: Call
) -> Slices[DescribeTransactionsResponse]:
    count, states = Slice(), []
    for transactional_id in request.transactional_ids:
        state = describe(transactional_id, call)
        states.append(state)
        if count.is_full(1 + sum(1 + len(topic.partitions) for topic in state.topics)):
            yield
    return DescribeTransactionsResponse(transaction_states=states)


def describe(transactional_id: str, call: Call) -> TransactionState:
    log = call.node.transactions.find(transactional_id)
    if isinstance(log, ErrorCode):
        return refused(transactional_id, log)
    (described,) = log.state.describe_transactions([transactional_id])
    return described
