"""AddPartitionsToTxn, AddOffsetsToTxn: partitions join a transaction, or ask whether they have."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pykbroker.coordination.transactions.outcome import Place
from pykbroker.coordination.transactions.states import ANSWERS, OnPartition, TransactionState
from pykbroker.coordination.transactions.step import Step, refusal_of_unknown, told_as
from pykbroker.coordination.transactions.transaction import EPOCH_PER_TRANSACTION, Producer
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.add_offsets_to_txn import AddOffsetsToTxnResponse
from pykbroker_protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from pykbroker.coordination.transactions.transaction import Transaction
    from pykbroker_protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
    from pykbroker_protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest

    Verdict = Callable[[Place], ErrorCode]

FENCED_SINCE = 2
BATCHED_SINCE = 4
EPOCH_PER_TRANSACTION_SINCE = 5


class Joining(NamedTuple):
    """Partitions that are to join, whichever request asks for it."""

    producer: Producer
    places: AbstractSet[Place]
    client_version: int
    now_ms: int


def add_partitions(
    asked: AddPartitionsToTxnTransaction,
    transaction: Transaction | None,
    *,
    version: int,
    transaction_version: int,
    now_ms: int,
) -> Step:
    if transaction is None:
        unknown = refusal_of_unknown(asked.transactional_id)
        return Step(answer_for(asked, lambda _: unknown))
    joining = Joining(
        producer=Producer(asked.producer_id, asked.producer_epoch),
        places=places_of(asked),
        client_version=client_version_of(version, transaction_version),
        now_ms=now_ms,
    )
    if asked.verify_only:
        return Step(answer_for(asked, verdict_on_each(joining, transaction)))
    code = told_as(refusal_of_joining(joining, transaction), version, FENCED_SINCE)
    becomes = joined(joining, transaction) if code is ErrorCode.NONE else ()
    return Step(answer_for(asked, lambda _: code), becomes)


def add_offsets(
    request: AddOffsetsToTxnRequest,
    transaction: Transaction | None,
    *,
    version: int,
    offsets_partition: Place,
    now_ms: int,
) -> Step:
    """The offsets of a group lie in one partition, which joins like any other."""
    if transaction is None:
        unknown = refusal_of_unknown(request.transactional_id)
        return Step(AddOffsetsToTxnResponse(error_code=unknown))
    joining = Joining(
        producer=Producer(request.producer_id, request.producer_epoch),
        places=frozenset({offsets_partition}),
        client_version=0,
        now_ms=now_ms,
    )
    code = told_as(refusal_of_joining(joining, transaction), version, FENCED_SINCE)
    becomes = joined(joining, transaction) if code is ErrorCode.NONE else ()
    return Step(AddOffsetsToTxnResponse(error_code=code), becomes)


def client_version_of(version: int, transaction_version: int) -> int:
    knows_epochs = version >= EPOCH_PER_TRANSACTION_SINCE
    return min(transaction_version, EPOCH_PER_TRANSACTION) if knows_epochs else 0


def refusal_of_joining(joining: Joining, transaction: Transaction) -> ErrorCode:
    if ANSWERS[transaction.state].partition is OnPartition.CONCURRENT_TRANSACTIONS:
        # Before the owner is looked at: with its markers a transaction may change its id.
        return ErrorCode.CONCURRENT_TRANSACTIONS
    return transaction.refusal_of(joining.producer)


def joined(joining: Joining, transaction: Transaction) -> tuple[Transaction, ...]:
    is_ongoing = transaction.state is TransactionState.ONGOING
    if is_ongoing and joining.places <= transaction.partitions:
        return ()
    after = transaction.joined_by(
        joining.places, client_version=joining.client_version, now_ms=joining.now_ms
    )
    return (after,)


def verdict_on_each(joining: Joining, transaction: Transaction) -> Verdict:
    """Whether a partition has joined; nothing changes by asking."""
    code = transaction.refusal_of(joining.producer)
    if (
        code is ErrorCode.NONE
        and ANSWERS[transaction.state].partition is OnPartition.CONCURRENT_TRANSACTIONS
    ):
        code = ErrorCode.CONCURRENT_TRANSACTIONS
    if code is not ErrorCode.NONE:
        return lambda _: code
    missing = joining.places - transaction.partitions
    return lambda place: ErrorCode.TRANSACTION_ABORTABLE if place in missing else ErrorCode.NONE


# --- requests and responses in their two forms


def transactions_of(
    request: AddPartitionsToTxnRequest, version: int
) -> Sequence[AddPartitionsToTxnTransaction]:
    """Clients ask for one transaction, brokers for many, which may have many coordinators."""
    if version >= BATCHED_SINCE:
        return request.transactions
    only = AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )
    return (only,)


def response_of(
    results: Sequence[AddPartitionsToTxnResult], version: int
) -> AddPartitionsToTxnResponse:
    if version >= BATCHED_SINCE:
        return AddPartitionsToTxnResponse(results_by_transaction=results)
    (only,) = results
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=only.topic_results)


def places_of(asked: AddPartitionsToTxnTransaction) -> frozenset[Place]:
    return frozenset(Place(topic.name, it) for topic in asked.topics for it in topic.partitions)


def answer_for(asked: AddPartitionsToTxnTransaction, verdict: Verdict) -> AddPartitionsToTxnResult:
    return AddPartitionsToTxnResult(
        transactional_id=asked.transactional_id,
        topic_results=[
            AddPartitionsToTxnTopicResult(
                name=topic.name,
                results_by_partition=[
                    AddPartitionsToTxnPartitionResult(
                        partition_index=it,
                        partition_error_code=verdict(Place(topic.name, it)),
                    )
                    for it in topic.partitions
                ],
            )
            for topic in asked.topics
        ],
    )


def refused_for_some(
    asked: AddPartitionsToTxnTransaction, refusals: Mapping[Place, ErrorCode]
) -> AddPartitionsToTxnResult:
    """Where one partition does not exist, or may not be written to, none joins."""
    others = ErrorCode.OPERATION_NOT_ATTEMPTED
    return answer_for(asked, lambda place: refusals.get(place, others))
