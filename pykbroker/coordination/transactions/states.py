"""The states of a transactional id: the response to each request, and the transitions.

Empty: the producer has an id and an epoch, and no transaction. Adding the first partition begins
one. A commit is rejected; a producer of version 2 may abort, which gives it the next epoch.

Ongoing: partitions were added; their records are not visible to `read_committed` consumers. More
partitions may be added, and the owner ends the transaction. InitProducerId of another producer
instance aborts it first and returns CONCURRENT_TRANSACTIONS; the producer's transaction timeout
aborts it, too.

PrepareCommit: the decision to commit is in the log and final; the owner got a successful response.
Markers are being written to the partitions. All requests return CONCURRENT_TRANSACTIONS.

PrepareAbort: the same for an aborted transaction.

CompleteCommit: all partitions have their markers. The producer may begin its next transaction. A
repeated EndTxn (its response was lost) gets the same response again. It is recognized by the
previous epoch (version 2) or by the same epoch (version 1).

CompleteAbort: the same for an aborted transaction.

Dead: the id expired or never existed. No object represents it: a tombstone removes it, and the
registry returns the errors for unknown ids.

PrepareEpochFence: an ongoing transaction is aborted to fence its owner. The state is never stored:
the abort is decided in the same step, and the log contains PrepareAbort with the next epoch. It has
a name and a number because Kafka's tools list it.
"""

from __future__ import annotations

from enum import Enum, StrEnum, auto
from typing import NamedTuple


class TransactionState(StrEnum):
    """The states in the order of their numbers in the log."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    DEAD = "Dead"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"


STATES = tuple(TransactionState)
NUMBERS = {state: number for number, state in enumerate(STATES)}
PREPARED = frozenset({TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT})
COMPLETE = frozenset({TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT})


class OnInit(Enum):
    """Result of an InitProducerId."""

    NEW_PRODUCER_ID = auto()
    NEXT_EPOCH = auto()
    ABORTS_THEN_RETRY = auto()
    CONCURRENT_TRANSACTIONS = auto()


class OnPartition(Enum):
    """Result of an AddPartitionsToTxn or AddOffsetsToTxn of the owner."""

    UNKNOWN_ID = auto()
    BEGINS_TRANSACTION = auto()
    ADDED = auto()
    CONCURRENT_TRANSACTIONS = auto()


class OnEnd(Enum):
    """Result of an EndTxn of the owner."""

    UNKNOWN_ID = auto()
    REJECTED = auto()
    ENDS_TRANSACTION = auto()
    ENDS_EMPTY_TRANSACTION = auto()
    REPEATS_RESPONSE = auto()
    CONCURRENT_TRANSACTIONS = auto()


class Ends(NamedTuple):
    commit: OnEnd
    abort: OnEnd


class Answers(NamedTuple):
    """A row of the table: the results in one state."""

    init: OnInit
    partition: OnPartition
    first_end: Ends
    """An EndTxn of version 2 in the current epoch, which cannot be a repetition."""
    repeatable_end: Ends
    """An EndTxn of version 1, or of version 2 in the previous epoch."""
    may_expire: bool


_WAITS = Ends(OnEnd.CONCURRENT_TRANSACTIONS, OnEnd.CONCURRENT_TRANSACTIONS)
_REFUSED = Ends(OnEnd.REJECTED, OnEnd.REJECTED)
_ENDS = Ends(OnEnd.ENDS_TRANSACTION, OnEnd.ENDS_TRANSACTION)
_UNKNOWN = Ends(OnEnd.UNKNOWN_ID, OnEnd.UNKNOWN_ID)
_ENDS_NOTHING = Ends(OnEnd.REJECTED, OnEnd.ENDS_EMPTY_TRANSACTION)

_PREPARED_ANSWERS = Answers(
    init=OnInit.CONCURRENT_TRANSACTIONS,
    partition=OnPartition.CONCURRENT_TRANSACTIONS,
    first_end=_WAITS,
    repeatable_end=_WAITS,
    may_expire=False,
)

ANSWERS = {
    TransactionState.EMPTY: Answers(
        init=OnInit.NEXT_EPOCH,
        partition=OnPartition.BEGINS_TRANSACTION,
        first_end=_ENDS_NOTHING,
        repeatable_end=_REFUSED,
        may_expire=True,
    ),
    TransactionState.ONGOING: Answers(
        init=OnInit.ABORTS_THEN_RETRY,
        partition=OnPartition.ADDED,
        first_end=_ENDS,
        repeatable_end=_ENDS,
        may_expire=False,
    ),
    TransactionState.PREPARE_COMMIT: _PREPARED_ANSWERS,
    TransactionState.PREPARE_ABORT: _PREPARED_ANSWERS,
    TransactionState.COMPLETE_COMMIT: Answers(
        init=OnInit.NEXT_EPOCH,
        partition=OnPartition.BEGINS_TRANSACTION,
        first_end=_ENDS_NOTHING,
        repeatable_end=Ends(OnEnd.REPEATS_RESPONSE, OnEnd.REJECTED),
        may_expire=True,
    ),
    TransactionState.COMPLETE_ABORT: Answers(
        init=OnInit.NEXT_EPOCH,
        partition=OnPartition.BEGINS_TRANSACTION,
        first_end=_ENDS_NOTHING,
        repeatable_end=Ends(OnEnd.REJECTED, OnEnd.REPEATS_RESPONSE),
        may_expire=True,
    ),
    TransactionState.DEAD: Answers(
        init=OnInit.NEW_PRODUCER_ID,
        partition=OnPartition.UNKNOWN_ID,
        first_end=_UNKNOWN,
        repeatable_end=_UNKNOWN,
        may_expire=False,
    ),
    TransactionState.PREPARE_EPOCH_FENCE: _PREPARED_ANSWERS,
}


class Transition(NamedTuple):
    origin: TransactionState
    goal: TransactionState
    cause: str


_EMPTY, _ONGOING, _DEAD = TransactionState.EMPTY, TransactionState.ONGOING, TransactionState.DEAD
_FENCE = TransactionState.PREPARE_EPOCH_FENCE
_TO_COMMIT, _COMMITTED = TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT
_TO_ABORT, _ABORTED = TransactionState.PREPARE_ABORT, TransactionState.COMPLETE_ABORT

TRANSITIONS = (
    Transition(_EMPTY, _ONGOING, "a partition is added"),
    Transition(_EMPTY, _EMPTY, "InitProducerId"),
    Transition(_ONGOING, _ONGOING, "a partition is added"),
    Transition(_ONGOING, _TO_COMMIT, "the owner commits"),
    Transition(_ONGOING, _TO_ABORT, "the owner aborts"),
    Transition(_ONGOING, _FENCE, "InitProducerId or transaction timeout"),
    Transition(_FENCE, _TO_ABORT, "immediately"),
    Transition(_TO_COMMIT, _COMMITTED, "all markers are written"),
    Transition(_TO_ABORT, _ABORTED, "all markers are written"),
    Transition(_EMPTY, _TO_ABORT, "the owner aborts an empty transaction (version 2)"),
    *(
        Transition(origin, goal, cause)
        for origin in (_COMMITTED, _ABORTED)
        for goal, cause in (
            (_ONGOING, "a partition is added"),
            (_EMPTY, "InitProducerId"),
            (_TO_ABORT, "the owner aborts an empty transaction (version 2)"),
        )
    ),
    *(
        Transition(it, _DEAD, "transactional.id.expiration.ms without a transaction")
        for it in (_EMPTY, _COMMITTED, _ABORTED)
    ),
)

LEGAL_TRANSITIONS = frozenset((it.origin, it.goal) for it in TRANSITIONS)
