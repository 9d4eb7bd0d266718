"""Reconciles a transactional id with data partitions, after a power loss took the end of a log.

`__transaction_state` may lose records while data partitions keep later producer epochs and open
transactions of the same producer id, or the reverse. Without a loss nothing changes here: the
coordinator writes an epoch or a partition to its log before any data partition has it, and it
completes a transaction after all markers are written.

With transaction version 0 or 1 all transactions of a producer have one epoch. A prepared commit is
then completed even if the open transaction in a partition is the next one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from pykbroker.coordination.transactions.states import COMPLETE, TransactionState
from pykbroker.coordination.transactions.transaction import (
    LAST_EPOCH,
    NO_PRODUCER_ID,
    Producer,
    Transaction,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pykbroker.coordination.transactions.outcome import TopicPartition

RECONCILED = COMPLETE | {TransactionState.EMPTY, TransactionState.ONGOING}
"""In other states, markers must be written first."""


class ProducerOnPartitions(NamedTuple):
    """State of one producer id in the data partitions."""

    epoch: int
    """The highest epoch of all partitions."""
    open_at: Mapping[TopicPartition, int]
    """Partitions with an open transaction and the producer's epoch there."""


def reconciled(
    transaction: Transaction, seen: ProducerOnPartitions, *, transaction_version: int, now_ms: int
) -> Transaction | None:
    """Returns the new state if a log has lost records of this transactional id, else None.

    If the coordinator lost records, the next epoch fences the old producer instance: it may be in
    a transaction whose beginning is lost. If a data partition lost the marker of the last complete
    transaction, the transaction is prepared again and ends there as it ended elsewhere.
    """
    if transaction.state not in RECONCILED or is_consistent(transaction, seen):
        return None
    without_marker = ended_before(transaction, seen)
    if without_marker is not None:
        return without_marker
    epoch = min(max(transaction.producer_epoch, seen.epoch), LAST_EPOCH)
    if seen.open_at or transaction.state is TransactionState.ONGOING:
        joined = replace(transaction, producer_epoch=epoch).with_partitions(
            frozenset(seen.open_at), client_version=transaction.client_version, now_ms=now_ms
        )
        return joined.aborted_and_fenced(
            transaction_version=transaction_version, new_producer_id=None, now_ms=now_ms
        )
    fencing = Producer(transaction.producer_id, epoch + 1)
    return transaction.with_producer(fencing, timeout_ms=transaction.timeout_ms, now_ms=now_ms)


def is_consistent(transaction: Transaction, seen: ProducerOnPartitions) -> bool:
    if seen.epoch > transaction.producer_epoch:
        return False
    if transaction.state is not TransactionState.ONGOING:
        return not seen.open_at
    return all(
        topic_partition in transaction.partitions and epoch == transaction.producer_epoch
        for topic_partition, epoch in seen.open_at.items()
    )


def ended_before(transaction: Transaction, seen: ProducerOnPartitions) -> Transaction | None:
    """Returns the prepared state if partitions lack the marker of this complete transaction."""
    owner = transaction.owner_before_end
    if owner is None or owner.id != transaction.producer_id:
        return None
    open_partitions = frozenset(
        topic_partition for topic_partition, epoch in seen.open_at.items() if epoch == owner.epoch
    )
    if not open_partitions or seen.epoch > transaction.producer_epoch:
        return None
    was_commit = transaction.state is TransactionState.COMPLETE_COMMIT
    prepared = TransactionState.PREPARE_COMMIT if was_commit else TransactionState.PREPARE_ABORT
    return replace(
        transaction, state=prepared, partitions=open_partitions, next_producer_id=NO_PRODUCER_ID
    )
