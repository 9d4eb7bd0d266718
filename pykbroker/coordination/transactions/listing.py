"""Transactions as operators see them: listed by state, producer, age and name, and described."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.coordination.groups.consumer_regex import BadRegex, compile_regex
from pykbroker.coordination.transactions.records import by_topic
from pykbroker.coordination.transactions.states import STATES
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages import describe_transactions, list_transactions
from pykbroker_protocol.messages.list_transactions import ListTransactionsResponse

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pykbroker.coordination.transactions.transaction import Transaction
    from pykbroker_protocol.messages.list_transactions import ListTransactionsRequest

STATE_NAMES = frozenset(it.value for it in STATES)


def listed(
    transactions: Iterable[Transaction], request: ListTransactionsRequest, now_ms: int
) -> ListTransactionsResponse:
    """An empty filter lets everything through; the name of a state must be exact."""
    found = [it for it in transactions if passes(it, request, now_ms)]
    try:
        found = named_like(request.transactional_id_pattern, found)
    except BadRegex:
        return ListTransactionsResponse(
            error_code=ErrorCode.INVALID_REGULAR_EXPRESSION,
            unknown_state_filters=(),
            transaction_states=(),
        )
    return ListTransactionsResponse(
        error_code=ErrorCode.NONE,
        unknown_state_filters=[
            it for it in dict.fromkeys(request.state_filters) if it not in STATE_NAMES
        ],
        transaction_states=[
            list_transactions.TransactionState(
                transactional_id=it.transactional_id,
                producer_id=it.producer_id,
                transaction_state=it.state.value,
            )
            for it in found
        ],
    )


def passes(transaction: Transaction, request: ListTransactionsRequest, now_ms: int) -> bool:
    """Without a transaction there is no age: a filter for long ones lets it pass, as Kafka does."""
    states, producer_ids = request.state_filters, request.producer_id_filters
    duration_ms = now_ms - transaction.started_ms
    return (
        (not states or transaction.state.value in states)
        and (not producer_ids or transaction.producer_id in producer_ids)
        and (request.duration_filter < 0 or duration_ms > request.duration_filter)
    )


def named_like(pattern: str | None, transactions: Sequence[Transaction]) -> list[Transaction]:
    if not pattern:
        return list(transactions)
    names = compile_regex(pattern).matches(it.transactional_id for it in transactions)
    return [it for it in transactions if it.transactional_id in names]


def described(
    transactional_id: str, transaction: Transaction | None
) -> describe_transactions.TransactionState:
    if transaction is None:
        code = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        return refused(transactional_id, code if transactional_id else ErrorCode.INVALID_REQUEST)
    return describe_transactions.TransactionState(
        error_code=ErrorCode.NONE,
        transactional_id=transactional_id,
        transaction_state=transaction.state.value,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_start_time_ms=transaction.started_ms,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        topics=[
            describe_transactions.TopicData(topic=topic, partitions=partitions)
            for topic, partitions in by_topic(transaction.partitions)
        ],
    )


def refused(transactional_id: str, code: ErrorCode) -> describe_transactions.TransactionState:
    return describe_transactions.TransactionState(
        error_code=code,
        transactional_id=transactional_id,
        transaction_state="",
        transaction_timeout_ms=0,
        transaction_start_time_ms=0,
        producer_id=0,
        producer_epoch=0,
        topics=(),
    )
