"""The states of a transactional id: what each answers to producers, and what moves it on.

Empty: a producer has been given an id and an epoch, and has no transaction. The first partition
that it adds begins one. Without a partition there is nothing to commit; a producer of version 2
may abort all the same, and gets its next epoch by that.

Ongoing: partitions have joined and what is written there counts for nobody yet. Partitions may be
added, and the owner ends the transaction. A producer that takes over aborts it first and is told
to come back; so does the timeout, which the producer chose.

PrepareCommit: the decision is in the log and will not change any more; the owner has been told of
success. The markers are on their way to the partitions. Whoever asks for anything is told to wait.

PrepareAbort: likewise, for a transaction that does not count.

CompleteCommit: all partitions have their markers. The producer may begin its next transaction
without another word. An owner that asks for the same end once more lost its answer and is told
again; one of version 2 is known by the epoch before, one of version 1 by the same epoch.

CompleteAbort: likewise, for a transaction that does not count.

Dead: nothing was heard for long, or ever. No object stands for it: a tombstone removes it, and the
registry just does not know the id, and answers for it.

PrepareEpochFence: an ongoing transaction is taken from its owner, whose epoch is over. Nothing
stays in this state: here the abort is decided in the same step, and the log shows PrepareAbort
with the next epoch. It has a name and a number because Kafka's tools ask for it.
"""

from __future__ import annotations

from enum import Enum, StrEnum, auto
from typing import NamedTuple


class TransactionState(StrEnum):
    """In the order of the numbers that stand for them in the log."""

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
    """What becomes of an InitProducerId."""

    GETS_A_NEW_ID = auto()
    GETS_THE_NEXT_EPOCH = auto()
    ABORTS_AND_MUST_WAIT = auto()
    MUST_WAIT = auto()


class OnPartition(Enum):
    """What becomes of an AddPartitionsToTxn or AddOffsetsToTxn by the owner."""

    IS_UNKNOWN = auto()
    BEGINS_A_TRANSACTION = auto()
    JOINS = auto()
    MUST_WAIT = auto()


class OnEnd(Enum):
    """What becomes of an EndTxn by the owner."""

    IS_UNKNOWN = auto()
    IS_REFUSED = auto()
    ENDS_IT = auto()
    ENDS_AN_EMPTY_ONE = auto()
    IS_TOLD_AGAIN = auto()
    MUST_WAIT = auto()


class Ends(NamedTuple):
    commit: OnEnd
    abort: OnEnd


class Answers(NamedTuple):
    """A row of the table: how a transactional id answers in one state."""

    init: OnInit
    partition: OnPartition
    first_end: Ends
    """An EndTxn known to be no repetition: of version 2, in the owner's present epoch."""
    repeatable_end: Ends
    """One of version 1, or of version 2 in the epoch before."""
    may_expire: bool


_WAITS = Ends(OnEnd.MUST_WAIT, OnEnd.MUST_WAIT)
_REFUSED = Ends(OnEnd.IS_REFUSED, OnEnd.IS_REFUSED)
_ENDS = Ends(OnEnd.ENDS_IT, OnEnd.ENDS_IT)
_UNKNOWN = Ends(OnEnd.IS_UNKNOWN, OnEnd.IS_UNKNOWN)
_ENDS_NOTHING = Ends(OnEnd.IS_REFUSED, OnEnd.ENDS_AN_EMPTY_ONE)

_PREPARED_ANSWERS = Answers(
    init=OnInit.MUST_WAIT,
    partition=OnPartition.MUST_WAIT,
    first_end=_WAITS,
    repeatable_end=_WAITS,
    may_expire=False,
)

ANSWERS = {
    TransactionState.EMPTY: Answers(
        init=OnInit.GETS_THE_NEXT_EPOCH,
        partition=OnPartition.BEGINS_A_TRANSACTION,
        first_end=_ENDS_NOTHING,
        repeatable_end=_REFUSED,
        may_expire=True,
    ),
    TransactionState.ONGOING: Answers(
        init=OnInit.ABORTS_AND_MUST_WAIT,
        partition=OnPartition.JOINS,
        first_end=_ENDS,
        repeatable_end=_ENDS,
        may_expire=False,
    ),
    TransactionState.PREPARE_COMMIT: _PREPARED_ANSWERS,
    TransactionState.PREPARE_ABORT: _PREPARED_ANSWERS,
    TransactionState.COMPLETE_COMMIT: Answers(
        init=OnInit.GETS_THE_NEXT_EPOCH,
        partition=OnPartition.BEGINS_A_TRANSACTION,
        first_end=_ENDS_NOTHING,
        repeatable_end=Ends(OnEnd.IS_TOLD_AGAIN, OnEnd.IS_REFUSED),
        may_expire=True,
    ),
    TransactionState.COMPLETE_ABORT: Answers(
        init=OnInit.GETS_THE_NEXT_EPOCH,
        partition=OnPartition.BEGINS_A_TRANSACTION,
        first_end=_ENDS_NOTHING,
        repeatable_end=Ends(OnEnd.IS_REFUSED, OnEnd.IS_TOLD_AGAIN),
        may_expire=True,
    ),
    TransactionState.DEAD: Answers(
        init=OnInit.GETS_A_NEW_ID,
        partition=OnPartition.IS_UNKNOWN,
        first_end=_UNKNOWN,
        repeatable_end=_UNKNOWN,
        may_expire=False,
    ),
    TransactionState.PREPARE_EPOCH_FENCE: _PREPARED_ANSWERS,
}


class Move(NamedTuple):
    origin: TransactionState
    goal: TransactionState
    cause: str


_EMPTY, _ONGOING, _DEAD = TransactionState.EMPTY, TransactionState.ONGOING, TransactionState.DEAD
_FENCE = TransactionState.PREPARE_EPOCH_FENCE
_TO_COMMIT, _COMMITTED = TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT
_TO_ABORT, _ABORTED = TransactionState.PREPARE_ABORT, TransactionState.COMPLETE_ABORT

MOVES = (
    Move(_EMPTY, _ONGOING, "a partition is added"),
    Move(_EMPTY, _EMPTY, "a producer takes over"),
    Move(_ONGOING, _ONGOING, "a partition is added"),
    Move(_ONGOING, _TO_COMMIT, "the owner commits"),
    Move(_ONGOING, _TO_ABORT, "the owner aborts"),
    Move(_ONGOING, _FENCE, "a producer takes over, or time is over"),
    Move(_FENCE, _TO_ABORT, "at once"),
    Move(_TO_COMMIT, _COMMITTED, "all markers are written"),
    Move(_TO_ABORT, _ABORTED, "all markers are written"),
    Move(_EMPTY, _TO_ABORT, "the owner aborts nothing (version 2)"),
    *(
        Move(origin, goal, cause)
        for origin in (_COMMITTED, _ABORTED)
        for goal, cause in (
            (_ONGOING, "a partition is added"),
            (_EMPTY, "a producer takes over"),
            (_TO_ABORT, "the owner aborts nothing (version 2)"),
        )
    ),
    *(Move(it, _DEAD, "nothing is heard for long") for it in (_EMPTY, _COMMITTED, _ABORTED)),
)

LEGAL_MOVES = frozenset((move.origin, move.goal) for move in MOVES)
