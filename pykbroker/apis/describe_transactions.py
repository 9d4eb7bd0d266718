"""DescribeTransactions: who owns a transactional id, and what its transaction has touched."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.coordination.transactions.listing import refused
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)

if TYPE_CHECKING:
    from pykbroker.apis.node import Call


def handle(request: DescribeTransactionsRequest, call: Call) -> DescribeTransactionsResponse:
    return DescribeTransactionsResponse(
        transaction_states=[describe(it, call) for it in request.transactional_ids]
    )


def describe(transactional_id: str, call: Call) -> TransactionState:
    log = call.node.transactions.find(transactional_id)
    if isinstance(log, ErrorCode):
        return refused(transactional_id, log)
    (described,) = log.state.describe_transactions([transactional_id])
    return described
