"""InitProducerId: allocates a producer id, or bumps the epoch to fence the previous instance."""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING, NamedTuple, assert_never

from pykbroker.coordination.transactions.states import ANSWERS, OnInit, TransactionState
from pykbroker.coordination.transactions.step import Step, error_for_version
from pykbroker.coordination.transactions.transaction import (
    ENDLESS_TIMEOUT_MS,
    FENCING_EPOCH,
    FIRST_EPOCH,
    LAST_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    Producer,
    Transaction,
)
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.init_producer_id import InitProducerIdResponse

if TYPE_CHECKING:
    from pykbroker.coordination.transactions.settings import TransactionSettings
    from pykbroker_protocol.messages.init_producer_id import InitProducerIdRequest

FENCED_SINCE = 4


class Recovery(NamedTuple):
    """An epoch bump requested by a producer (KIP-360) and its result, to detect a retry."""

    requested: Producer
    given: Producer


class Claim(Enum):
    """The relation of the requesting producer to the current owner, by producer id and epoch."""

    NEW_INSTANCE = auto()
    OWNER = auto()
    OWNER_RETRY = auto()
    """The owner of the previous epoch, which may have missed the response with the current one."""
    FENCED = auto()


class Init(NamedTuple):
    """An InitProducerId request with all other inputs of its decision except the transaction."""

    request: InitProducerIdRequest
    version: int
    new_producer_id: int | None
    """A newly allocated producer id, in case one is needed."""
    recovery: Recovery | None
    transaction_version: int
    now_ms: int

    @property
    def producer(self) -> Producer | None:
        """The producer id and epoch of the request; None for a new producer instance."""
        if self.request.producer_id == NO_PRODUCER_ID:
            return None
        return Producer(self.request.producer_id, self.request.producer_epoch)

    @property
    def timeout_ms(self) -> int:
        timeout_ms = self.request.transaction_timeout_ms
        return ENDLESS_TIMEOUT_MS if self.request.enable2_pc else timeout_ms

    def refused(self, code: ErrorCode) -> Step:
        return Step(refused(error_for_version(code, self.version, FENCED_SINCE)))


def init_producer_id(
    init: Init, transaction: Transaction | None, settings: TransactionSettings
) -> Step:
    code = refusal_of_request(init.request, settings)
    if code is not ErrorCode.NONE:
        return init.refused(code)
    if transaction is None:
        return create(init)
    answer = ANSWERS[transaction.state].init
    if answer is OnInit.CONCURRENT_TRANSACTIONS:
        return init.refused(ErrorCode.CONCURRENT_TRANSACTIONS)
    claim = claim_of(init, transaction)
    if claim is Claim.FENCED:
        return init.refused(ErrorCode.PRODUCER_FENCED)
    if answer is OnInit.ABORTS_THEN_RETRY:
        return abort_and_fence(init, transaction, claim)
    assert answer is OnInit.NEXT_EPOCH
    return grant(init, transaction, claim)


def refusal_of_request(request: InitProducerIdRequest, settings: TransactionSettings) -> ErrorCode:
    has_id = request.producer_id != NO_PRODUCER_ID
    has_epoch = request.producer_epoch != NO_PRODUCER_EPOCH
    if not request.transactional_id or has_id != has_epoch:
        return ErrorCode.INVALID_REQUEST
    if request.enable2_pc and not settings.two_phase_commit:
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if request.keep_prepared_txn:
        return ErrorCode.UNSUPPORTED_VERSION
    is_within_bounds = 0 < request.transaction_timeout_ms <= settings.timeout_ms_max
    if not request.enable2_pc and not is_within_bounds:
        return ErrorCode.INVALID_TRANSACTION_TIMEOUT
    return ErrorCode.NONE


def claim_of(init: Init, transaction: Transaction) -> Claim:
    producer = init.producer
    if producer is None:
        return Claim.NEW_INSTANCE
    if producer == transaction.owner:
        return Claim.OWNER
    if producer == transaction.owner_before_end:
        return Claim.OWNER_RETRY
    if init.recovery == Recovery(producer, transaction.owner):
        return Claim.OWNER_RETRY
    return Claim.FENCED


def create(init: Init) -> Step:
    """Creates an unknown transactional id and ignores the producer id of the request."""
    if init.new_producer_id is None:
        return init.refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    transactional_id = init.request.transactional_id
    assert transactional_id
    transaction = Transaction(
        transactional_id=transactional_id,
        state=TransactionState.EMPTY,
        producer_id=init.new_producer_id,
        producer_epoch=FIRST_EPOCH,
        previous_producer_id=init.new_producer_id,
        timeout_ms=init.timeout_ms,
        updated_ms=init.now_ms,
    )
    return granted(transaction)


def abort_and_fence(init: Init, transaction: Transaction, claim: Claim) -> Step:
    """Aborts the ongoing transaction with a fencing epoch; a retry gets the epoch after it."""
    if claim is Claim.OWNER_RETRY:  # a late retry: the owner has begun another transaction
        return init.refused(ErrorCode.PRODUCER_FENCED)
    aborted = transaction.aborted_and_fenced(
        transaction_version=init.transaction_version,
        new_producer_id=init.new_producer_id,
        now_ms=init.now_ms,
    )
    reason = f"transaction of {transaction.transactional_id} aborts: new producer instance"
    code = ErrorCode.CONCURRENT_TRANSACTIONS
    return Step(refused(code), (aborted,), reason)


def grant(init: Init, transaction: Transaction, claim: Claim) -> Step:
    match claim:
        case Claim.OWNER_RETRY if transaction.producer_epoch < FENCING_EPOCH:
            producer = transaction.owner
        case Claim.OWNER_RETRY | Claim.OWNER | Claim.NEW_INSTANCE:
            if transaction.is_exhausted:
                if init.new_producer_id is None:
                    return init.refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
                producer = Producer(init.new_producer_id, FIRST_EPOCH)
            else:
                producer = Producer(transaction.producer_id, transaction.producer_epoch + 1)
        case Claim.FENCED:
            return init.refused(ErrorCode.PRODUCER_FENCED)
        case _:
            assert_never(claim)
    assert producer.epoch <= LAST_EPOCH
    return granted(
        transaction.with_producer(producer, timeout_ms=init.timeout_ms, now_ms=init.now_ms)
    )


def granted(transaction: Transaction) -> Step:
    response = InitProducerIdResponse(
        error_code=ErrorCode.NONE,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
    )
    return Step(response, (transaction,))


def refused(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_epoch=NO_PRODUCER_EPOCH)
