"""EndTxn: commits or aborts a transaction; the response follows the committed decision."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.apis.with_producer_id import decided_with_producer_id
from pykbroker.coordination.transactions.end_txn import refused

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from pykbroker.apis.node import Call
    from pykbroker_protocol.message import Message
    from pykbroker_protocol.messages.end_txn import EndTxnRequest


def handle(request: EndTxnRequest, call: Call) -> Message | Awaitable[Message]:
    return decided_with_producer_id(
        request.transactional_id,
        call,
        lambda new_producer_id: call.node.transactions.decide(
            request.transactional_id,
            lambda transactions, ticket: transactions.end_txn(
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
