"""The state of a transactional id: owner, partitions and transitions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from pykbroker.coordination.transactions.states import COMPLETE, LEGAL_TRANSITIONS, TransactionState
from pykbroker_protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from pykbroker.coordination.transactions.outcome import TopicPartition

NO_PRODUCER_ID = NO_PRODUCER_EPOCH = NO_TIMESTAMP = -1
FIRST_EPOCH = 0
FENCING_EPOCH = 2**15 - 1
"""The highest epoch; it fences the epoch below it and is never returned to a producer."""
LAST_EPOCH = FENCING_EPOCH - 1
ENDLESS_TIMEOUT_MS = 2**31 - 1
"""Timeout of a transaction with an external coordinator (two-phase commit): never aborted."""
EPOCH_PER_TRANSACTION = 2
"""First transaction version in which every transaction has its own epoch (KIP-890)."""


class Producer(NamedTuple):
    """Producer id and epoch of one producer instance."""

    id: int
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """Immutable transaction state. A transition returns a new value; replay makes it effective."""

    transactional_id: str
    state: TransactionState
    producer_id: int
    producer_epoch: int
    previous_producer_id: int
    """Producer id before the last transition, usually the same."""
    next_producer_id: int = NO_PRODUCER_ID
    """Producer id after completion, if the epochs of the current id are exhausted."""
    timeout_ms: int
    partitions: frozenset[TopicPartition] = frozenset()
    started_ms: int = NO_TIMESTAMP
    updated_ms: int
    client_version: int = 0
    """Transaction version of the client in the last transition; 0 before version 2."""

    @property
    def owner(self) -> Producer:
        return Producer(self.producer_id, self.producer_epoch)

    @property
    def owner_before_end(self) -> Producer | None:
        """The producer that ended a version 2 transaction and may not know the new epoch yet."""
        if self.state not in COMPLETE or self.client_version < EPOCH_PER_TRANSACTION:
            return None
        if self.producer_epoch > FIRST_EPOCH:
            return Producer(self.producer_id, self.producer_epoch - 1)
        if self.previous_producer_id != self.producer_id:
            return Producer(self.previous_producer_id, LAST_EPOCH)
        return None

    @property
    def is_exhausted(self) -> bool:
        """True if the next epoch needs a new producer id."""
        return self.producer_epoch >= LAST_EPOCH

    def is_timed_out(self, now_ms: int) -> bool:
        return (
            self.state is TransactionState.ONGOING
            and self.timeout_ms != ENDLESS_TIMEOUT_MS
            and self.started_ms + self.timeout_ms < now_ms
        )

    def refusal_of(self, producer: Producer) -> ErrorCode:
        """Returns the error if this producer is not the owner of the transactional id."""
        if producer.id != self.producer_id:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        if producer.epoch != self.producer_epoch or producer.epoch == FENCING_EPOCH:
            return ErrorCode.PRODUCER_FENCED
        return ErrorCode.NONE

    # --- transitions

    def with_producer(self, producer: Producer, *, timeout_ms: int, now_ms: int) -> Transaction:
        """Sets a new owner and fences the previous one."""
        return replace(
            self._with_state(TransactionState.EMPTY, now_ms),
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            timeout_ms=timeout_ms,
            partitions=frozenset(),
            started_ms=NO_TIMESTAMP,
        )

    def with_partitions(
        self, partitions: AbstractSet[TopicPartition], *, client_version: int, now_ms: int
    ) -> Transaction:
        begins = self.state is not TransactionState.ONGOING
        return replace(
            self._with_state(TransactionState.ONGOING, now_ms),
            partitions=self.partitions | partitions,
            started_ms=now_ms if begins else self.started_ms,
            client_version=client_version,
        )

    def ended(self, *, committed: bool, now_ms: int) -> Transaction:
        """Ends the transaction as in version 1, with an unchanged epoch."""
        target = TransactionState.PREPARE_COMMIT if committed else TransactionState.PREPARE_ABORT
        return replace(self._with_state(target, now_ms), client_version=0)

    def ended_with_epoch(
        self, *, committed: bool, next_producer_id: int, now_ms: int
    ) -> Transaction:
        """Ends the transaction as in version 2: markers have the next epoch."""
        begun = self.state is TransactionState.ONGOING
        return replace(
            self.ended(committed=committed, now_ms=now_ms),
            producer_epoch=self._next_epoch(),
            next_producer_id=next_producer_id,
            started_ms=self.started_ms if begun else now_ms,
            client_version=EPOCH_PER_TRANSACTION,
        )

    def aborted_and_fenced(
        self, *, transaction_version: int, new_producer_id: int | None, now_ms: int
    ) -> Transaction:
        """Aborts an ongoing transaction and fences its owner.

        If the epochs are exhausted and no new id is available, the fencing epoch stays until the
        next InitProducerId.
        """
        fence = replace(
            self._with_state(TransactionState.PREPARE_EPOCH_FENCE, now_ms),
            producer_epoch=self._next_epoch(),
        )
        aborted = fence.ended(committed=False, now_ms=now_ms)
        if transaction_version < EPOCH_PER_TRANSACTION:
            return aborted
        next_producer_id = NO_PRODUCER_ID
        if self.is_exhausted and new_producer_id is not None:
            next_producer_id = new_producer_id
        return replace(
            aborted, client_version=EPOCH_PER_TRANSACTION, next_producer_id=next_producer_id
        )

    def completed(self, now_ms: int) -> Transaction:
        """Completes the transaction after all partitions have their markers."""
        is_commit = self.state is TransactionState.PREPARE_COMMIT
        target = TransactionState.COMPLETE_COMMIT if is_commit else TransactionState.COMPLETE_ABORT
        done = replace(self._with_state(target, now_ms), partitions=frozenset())
        if self.next_producer_id == NO_PRODUCER_ID:
            return done
        return replace(
            done,
            producer_id=self.next_producer_id,
            producer_epoch=FIRST_EPOCH,
            next_producer_id=NO_PRODUCER_ID,
        )

    def _with_state(self, target: TransactionState, now_ms: int) -> Transaction:
        assert (self.state, target) in LEGAL_TRANSITIONS, f"{self.state.value} to {target.value}"
        return replace(self, state=target, updated_ms=now_ms, previous_producer_id=self.producer_id)

    def _next_epoch(self) -> int:
        assert self.producer_epoch < FENCING_EPOCH
        return self.producer_epoch + 1
