"""InitProducerId: a producer comes, or comes back, and whoever was there before is fenced."""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING, NamedTuple, assert_never

from pykbroker.coordination.transactions.states import ANSWERS, OnInit, TransactionState
from pykbroker.coordination.transactions.step import Step, told_as
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
    """A producer that came back (KIP-360), and what it was given; its repetition is told again."""

    asked: Producer
    given: Producer


class Claim(Enum):
    """Who asks, by the producer id and epoch that the request carries."""

    NEWCOMER = auto()
    OWNER = auto()
    OWNER_AGAIN = auto()
    """It was given the present epoch, and may not have heard of it."""
    FENCED = auto()


class Init(NamedTuple):
    """An InitProducerId, and all that its decision looks at beside the transaction."""

    request: InitProducerIdRequest
    version: int
    new_producer_id: int | None
    """At hand if one turns out to be needed."""
    recovery: Recovery | None
    transaction_version: int
    now_ms: int

    @property
    def producer(self) -> Producer | None:
        """Who the request says it comes from; none says that it is new."""
        if self.request.producer_id == NO_PRODUCER_ID:
            return None
        return Producer(self.request.producer_id, self.request.producer_epoch)

    @property
    def timeout_ms(self) -> int:
        asked_ms = self.request.transaction_timeout_ms
        return ENDLESS_TIMEOUT_MS if self.request.enable2_pc else asked_ms

    def refused(self, code: ErrorCode) -> Step:
        return Step(refused(told_as(code, self.version, FENCED_SINCE)))


def init_producer_id(
    init: Init, transaction: Transaction | None, settings: TransactionSettings
) -> Step:
    code = refusal_of_request(init.request, settings)
    if code is not ErrorCode.NONE:
        return init.refused(code)
    if transaction is None:
        return begin(init)
    answer = ANSWERS[transaction.state].init
    if answer is OnInit.CONCURRENT_TRANSACTIONS:
        return init.refused(ErrorCode.CONCURRENT_TRANSACTIONS)
    claim = claim_of(init, transaction)
    if claim is Claim.FENCED:
        return init.refused(ErrorCode.PRODUCER_FENCED)
    if answer is OnInit.ABORTS_THEN_RETRY:
        return abort_first(init, transaction, claim)
    assert answer is OnInit.NEXT_EPOCH
    return give(init, transaction, claim)


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
        return Claim.NEWCOMER
    if producer == transaction.owner:
        return Claim.OWNER
    if producer == transaction.owner_before_end:
        return Claim.OWNER_AGAIN
    if init.recovery == Recovery(producer, transaction.owner):
        return Claim.OWNER_AGAIN
    return Claim.FENCED


def begin(init: Init) -> Step:
    """The transactional id is new here; what the producer thinks to have is of no account."""
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
    return given(transaction)


def abort_first(init: Init, transaction: Transaction, claim: Claim) -> Step:
    """The present epoch is never told to anybody; who comes again gets the one after."""
    if claim is Claim.OWNER_AGAIN:  # a late repetition: the owner has gone on since
        return init.refused(ErrorCode.PRODUCER_FENCED)
    aborted = transaction.taken_away(
        transaction_version=init.transaction_version,
        new_producer_id=init.new_producer_id,
        now_ms=init.now_ms,
    )
    reason = f"transaction of {transaction.transactional_id} aborts: a producer takes over"
    code = ErrorCode.CONCURRENT_TRANSACTIONS
    return Step(refused(code), (aborted,), reason)


def give(init: Init, transaction: Transaction, claim: Claim) -> Step:
    match claim:
        case Claim.OWNER_AGAIN if transaction.producer_epoch < FENCING_EPOCH:
            producer = transaction.owner
        case Claim.OWNER_AGAIN | Claim.OWNER | Claim.NEWCOMER:
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
    return given(transaction.given_to(producer, timeout_ms=init.timeout_ms, now_ms=init.now_ms))


def given(transaction: Transaction) -> Step:
    response = InitProducerIdResponse(
        error_code=ErrorCode.NONE,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
    )
    return Step(response, (transaction,))


def refused(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_epoch=NO_PRODUCER_EPOCH)
