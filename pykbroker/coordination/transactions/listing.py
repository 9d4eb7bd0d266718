"""ListTransactions with its filters, and DescribeTransactions."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

from pykbroker.coordination.groups.consumer_regex import (
    SLICE_EFFORT,
    BadRegex,
    Matching,
    compile_regex,
)
from pykbroker.coordination.transactions.records import by_topic
from pykbroker.coordination.transactions.states import STATES
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages import describe_transactions, list_transactions
from pykbroker_protocol.messages.list_transactions import ListTransactionsResponse

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pykbroker.coordination.transactions.transaction import Transaction
    from pykbroker_protocol.messages.list_transactions import ListTransactionsRequest

STATE_NAMES = frozenset(it.value for it in STATES)


Slices = Generator[None, None, ListTransactionsResponse]
"""Yields after each slice of work and returns the response."""


def listed_in_slices(
    transactions: Iterable[Transaction], request: ListTransactionsRequest, now_ms: int
) -> Slices:
    """Lists in slices: a pattern from a client must not block the event loop."""
    found = [it for it in transactions if passes(it, request, now_ms)]
    if request.transactional_id_pattern:
        try:
            regex = compile_regex(request.transactional_id_pattern)
            matching = Matching(regex, (it.transactional_id for it in found))
            while not matching.advance(SLICE_EFFORT):
                yield
        except BadRegex:
            return ListTransactionsResponse(
                error_code=ErrorCode.INVALID_REGULAR_EXPRESSION,
                unknown_state_filters=(),
                transaction_states=(),
            )
        names = matching.found
        found = [it for it in found if it.transactional_id in names]
    return listed(found, request)


def listed(
    transactions: Iterable[Transaction], request: ListTransactionsRequest
) -> ListTransactionsResponse:
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
            for it in transactions
        ],
    )


def passes(transaction: Transaction, request: ListTransactionsRequest, now_ms: int) -> bool:
    """Returns whether a transaction passes the filters; an empty filter passes all.

    State names must match exactly. Without a transaction the duration is unknown and passes the
    duration filter, as in Kafka.
    """
    states, producer_ids = request.state_filters, request.producer_id_filters
    duration_ms = now_ms - transaction.started_ms
    return (
        (not states or transaction.state.value in states)
        and (not producer_ids or transaction.producer_id in producer_ids)
        and (request.duration_filter < 0 or duration_ms > request.duration_filter)
    )


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
