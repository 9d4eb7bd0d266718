"""EndTxn: commits or aborts a transaction; a retry gets the same response."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, assert_never

from pykbroker.coordination.transactions.states import ANSWERS, PREPARED, OnEnd
from pykbroker.coordination.transactions.step import Step, error_for_version, refusal_of_unknown
from pykbroker.coordination.transactions.transaction import (
    EPOCH_PER_TRANSACTION,
    FENCING_EPOCH,
    FIRST_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    Producer,
    Transaction,
)
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.end_txn import EndTxnResponse

if TYPE_CHECKING:
    from pykbroker_protocol.messages.end_txn import EndTxnRequest

FENCED_SINCE = 2
EPOCH_PER_TRANSACTION_SINCE = 5


class End(NamedTuple):
    """An EndTxn request with all other inputs of its decision except the transaction."""

    request: EndTxnRequest
    version: int
    new_producer_id: int | None
    transaction_version: int
    now_ms: int

    @property
    def producer(self) -> Producer:
        return Producer(self.request.producer_id, self.request.producer_epoch)

    @property
    def gives_next_epoch(self) -> bool:
        """True if the transaction ends with an epoch bump (transaction version 2)."""
        return (
            self.version >= EPOCH_PER_TRANSACTION_SINCE
            and self.transaction_version >= EPOCH_PER_TRANSACTION
        )

    def refused(self, code: ErrorCode) -> Step:
        return Step(refused(error_for_version(code, self.version, FENCED_SINCE)))


def end_txn(end: End, transaction: Transaction | None) -> Step:
    if transaction is None:
        return end.refused(refusal_of_unknown(end.request.transactional_id))
    if end.gives_next_epoch and transaction.state in PREPARED:
        # Checked before the owner, because writing the markers may change the producer id.
        return end.refused(ErrorCode.CONCURRENT_TRANSACTIONS)
    is_repeated = end.gives_next_epoch and end.producer == transaction.owner_before_end
    code = ErrorCode.NONE if is_repeated else transaction.refusal_of(end.producer)
    if code is not ErrorCode.NONE:
        return end.refused(code)
    answer = answer_to(end, transaction, is_repeated=is_repeated)
    return apply(answer, end, transaction)


def answer_to(end: End, transaction: Transaction, *, is_repeated: bool) -> OnEnd:
    answers = ANSWERS[transaction.state]
    is_first = end.gives_next_epoch and not is_repeated
    ends = answers.first_end if is_first else answers.repeatable_end
    return ends.commit if end.request.committed else ends.abort


def apply(answer: OnEnd, end: End, transaction: Transaction) -> Step:
    match answer:
        case OnEnd.ENDS_TRANSACTION if not end.gives_next_epoch:
            prepared = transaction.ended(committed=end.request.committed, now_ms=end.now_ms)
            return prepared_step(prepared, end.now_ms)
        case OnEnd.ENDS_TRANSACTION | OnEnd.ENDS_EMPTY_TRANSACTION:
            return end_with_epoch(end, transaction)
        case OnEnd.REPEATS_RESPONSE:
            return repeat_response(end, transaction)
        case OnEnd.CONCURRENT_TRANSACTIONS:
            return end.refused(ErrorCode.CONCURRENT_TRANSACTIONS)
        case OnEnd.REJECTED:
            return end.refused(ErrorCode.INVALID_TXN_STATE)
        case OnEnd.UNKNOWN_ID:
            return end.refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    assert_never(answer)


def repeat_response(end: End, transaction: Transaction) -> Step:
    """Repeats the successful response; an owner whose epochs are exhausted is fenced instead."""
    if transaction.producer_epoch == FENCING_EPOCH:
        return end.refused(ErrorCode.PRODUCER_FENCED)
    return Step(succeeded(transaction.owner))


def end_with_epoch(end: End, transaction: Transaction) -> Step:
    next_producer_id: int | None = NO_PRODUCER_ID
    if transaction.is_exhausted:
        next_producer_id = end.new_producer_id
    if next_producer_id is None:
        return end.refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    prepared = transaction.ended_with_epoch(
        committed=end.request.committed, next_producer_id=next_producer_id, now_ms=end.now_ms
    )
    return prepared_step(prepared, end.now_ms)


def prepared_step(prepared: Transaction, now_ms: int) -> Step:
    """Ends the transaction and returns the producer id and epoch of the next transaction."""
    owner = prepared.owner
    if prepared.next_producer_id != NO_PRODUCER_ID:
        owner = Producer(prepared.next_producer_id, FIRST_EPOCH)
    return Step(succeeded(owner), with_completion(prepared, now_ms))


def with_completion(prepared: Transaction, now_ms: int) -> tuple[Transaction, ...]:
    """Adds the complete state if there is no partition, so no marker to write."""
    if prepared.partitions:
        return (prepared,)
    return (prepared, prepared.completed(now_ms))


def succeeded(owner: Producer) -> EndTxnResponse:
    """Returns success; versions before 5 do not encode the producer."""
    return EndTxnResponse(
        error_code=ErrorCode.NONE, producer_id=owner.id, producer_epoch=owner.epoch
    )


def refused(code: ErrorCode) -> EndTxnResponse:
    return EndTxnResponse(
        error_code=code, producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH
    )
