"""AddPartitionsToTxn and AddOffsetsToTxn: add partitions to a transaction, or verify them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pykbroker.coordination.transactions.outcome import TopicPartition
from pykbroker.coordination.transactions.states import ANSWERS, OnPartition, TransactionState
from pykbroker.coordination.transactions.step import Step, error_for_version, refusal_of_unknown
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

    Verdict = Callable[[TopicPartition], ErrorCode]

FENCED_SINCE = 2
BATCHED_SINCE = 4
EPOCH_PER_TRANSACTION_SINCE = 5


class Addition(NamedTuple):
    """Partitions to add, from either request."""

    producer: Producer
    partitions: AbstractSet[TopicPartition]
    client_version: int
    now_ms: int


def add_partitions(
    requested: AddPartitionsToTxnTransaction,
    transaction: Transaction | None,
    *,
    version: int,
    transaction_version: int,
    now_ms: int,
) -> Step:
    if transaction is None:
        unknown = refusal_of_unknown(requested.transactional_id)
        return Step(result_for(requested, lambda _: unknown))
    addition = Addition(
        producer=Producer(requested.producer_id, requested.producer_epoch),
        partitions=requested_partitions(requested),
        client_version=client_version_of(version, transaction_version),
        now_ms=now_ms,
    )
    if requested.verify_only:
        return Step(result_for(requested, verify_partitions(addition, transaction)))
    code = error_for_version(refusal_of_addition(addition, transaction), version, FENCED_SINCE)
    new_states = with_addition(addition, transaction) if code is ErrorCode.NONE else ()
    return Step(result_for(requested, lambda _: code), new_states)


def add_offsets(
    request: AddOffsetsToTxnRequest,
    transaction: Transaction | None,
    *,
    version: int,
    offsets_partition: TopicPartition,
    now_ms: int,
) -> Step:
    """Adds the partition of `__consumer_offsets` that stores the group's offsets."""
    if transaction is None:
        unknown = refusal_of_unknown(request.transactional_id)
        return Step(AddOffsetsToTxnResponse(error_code=unknown))
    addition = Addition(
        producer=Producer(request.producer_id, request.producer_epoch),
        partitions=frozenset({offsets_partition}),
        client_version=0,
        now_ms=now_ms,
    )
    code = error_for_version(refusal_of_addition(addition, transaction), version, FENCED_SINCE)
    new_states = with_addition(addition, transaction) if code is ErrorCode.NONE else ()
    return Step(AddOffsetsToTxnResponse(error_code=code), new_states)


def client_version_of(version: int, transaction_version: int) -> int:
    knows_epochs = version >= EPOCH_PER_TRANSACTION_SINCE
    return min(transaction_version, EPOCH_PER_TRANSACTION) if knows_epochs else 0


def refusal_of_addition(addition: Addition, transaction: Transaction) -> ErrorCode:
    if ANSWERS[transaction.state].partition is OnPartition.CONCURRENT_TRANSACTIONS:
        # Checked before the owner, because writing the markers may change the producer id.
        return ErrorCode.CONCURRENT_TRANSACTIONS
    return transaction.refusal_of(addition.producer)


def with_addition(addition: Addition, transaction: Transaction) -> tuple[Transaction, ...]:
    is_ongoing = transaction.state is TransactionState.ONGOING
    if is_ongoing and addition.partitions <= transaction.partitions:
        return ()
    after = transaction.with_partitions(
        addition.partitions, client_version=addition.client_version, now_ms=addition.now_ms
    )
    return (after,)


def verify_partitions(addition: Addition, transaction: Transaction) -> Verdict:
    """Returns the result for each partition without changing the transaction."""
    code = transaction.refusal_of(addition.producer)
    if (
        code is ErrorCode.NONE
        and ANSWERS[transaction.state].partition is OnPartition.CONCURRENT_TRANSACTIONS
    ):
        code = ErrorCode.CONCURRENT_TRANSACTIONS
    if code is not ErrorCode.NONE:
        return lambda _: code
    missing = addition.partitions - transaction.partitions
    return lambda partition: (
        ErrorCode.TRANSACTION_ABORTABLE if partition in missing else ErrorCode.NONE
    )


# --- request and response forms of different versions


def transactions_of(
    request: AddPartitionsToTxnRequest, version: int
) -> Sequence[AddPartitionsToTxnTransaction]:
    """Returns the transactions of a request: one from a client, several from a broker."""
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


def requested_partitions(requested: AddPartitionsToTxnTransaction) -> frozenset[TopicPartition]:
    return frozenset(
        TopicPartition(topic.name, it) for topic in requested.topics for it in topic.partitions
    )


def result_for(
    requested: AddPartitionsToTxnTransaction, verdict: Verdict
) -> AddPartitionsToTxnResult:
    return AddPartitionsToTxnResult(
        transactional_id=requested.transactional_id,
        topic_results=[
            AddPartitionsToTxnTopicResult(
                name=topic.name,
                results_by_partition=[
                    AddPartitionsToTxnPartitionResult(
                        partition_index=it,
                        partition_error_code=verdict(TopicPartition(topic.name, it)),
                    )
                    for it in topic.partitions
                ],
            )
            for topic in requested.topics
        ],
    )


def refused_for_partitions(
    requested: AddPartitionsToTxnTransaction, refusals: Mapping[TopicPartition, ErrorCode]
) -> AddPartitionsToTxnResult:
    """Returns errors for all partitions: if one is invalid or not authorized, none is added."""
    others = ErrorCode.OPERATION_NOT_ATTEMPTED
    return result_for(requested, lambda partition: refusals.get(partition, others))
