"""Repair of transactional ids after a log has lost records."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykbroker.coordination.transactions.outcome import TopicPartition
from pykbroker.coordination.transactions.reconciliation import ProducerOnPartitions, reconciled
from pykbroker.coordination.transactions.states import PREPARED, TransactionState
from pykbroker.coordination.transactions.transaction import (
    FENCING_EPOCH,
    LAST_EPOCH,
    Producer,
    Transaction,
)

EMPTY, ONGOING = TransactionState.EMPTY, TransactionState.ONGOING
COMMITTED, ABORTED = TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT
TO_COMMIT, TO_ABORT = TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT
A, B, C = TopicPartition("a", 0), TopicPartition("b", 0), TopicPartition("c", 0)
NOW_MS = 1_000


def transaction(
    state: TransactionState, epoch: int, *places: TopicPartition, **more: Any
) -> Transaction:
    plain = Transaction(
        transactional_id="id",
        state=state,
        producer_id=7,
        producer_epoch=epoch,
        previous_producer_id=7,
        timeout_ms=60_000,
        partitions=frozenset(places),
        started_ms=1,
        updated_ms=1,
        client_version=2,
    )
    return replace(plain, **more)


def repaired(
    before: Transaction, seen: ProducerOnPartitions, version: int = 2
) -> Transaction | None:
    return reconciled(before, seen, transaction_version=version, now_ms=NOW_MS)


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize(
    ("before", "seen"),
    [
        (transaction(EMPTY, 3), ProducerOnPartitions(3, {})),
        (transaction(EMPTY, 3), ProducerOnPartitions(2, {})),
        (transaction(ONGOING, 3, A, B), ProducerOnPartitions(3, {A: 3})),
        (transaction(ONGOING, 3, A, B), ProducerOnPartitions(2, {})),
        (transaction(COMMITTED, 3), ProducerOnPartitions(3, {})),
        (transaction(ABORTED, FENCING_EPOCH), ProducerOnPartitions(FENCING_EPOCH, {})),
        (transaction(TO_COMMIT, 3, A), ProducerOnPartitions(3, {A: 2, B: 3})),
        (transaction(TO_ABORT, 3, A), ProducerOnPartitions(9, {A: 9})),
    ],
)
def test_nothing_changes_without_a_loss_or_before_markers_are_written(
    before: Transaction, seen: ProducerOnPartitions, version: int
) -> None:
    assert repaired(before, seen, version) is None


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize("state", [EMPTY, COMMITTED, ABORTED])
def test_an_epoch_behind_a_partition_is_raised_beyond_it(
    state: TransactionState, version: int
) -> None:
    after = repaired(transaction(state, 3), ProducerOnPartitions(8, {}), version)
    assert after is not None
    assert (after.state, after.owner) == (EMPTY, Producer(7, 9))
    assert after.owner_before_end is None  # the end of its last transaction is unknown


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize(
    ("before", "seen", "epoch", "places"),
    [
        (transaction(EMPTY, 3), ProducerOnPartitions(3, {A: 3}), 4, {A}),
        (transaction(COMMITTED, 3), ProducerOnPartitions(3, {A: 3}), 4, {A}),
        (transaction(ABORTED, 3), ProducerOnPartitions(8, {A: 8, B: 5}), 9, {A, B}),
        (transaction(COMMITTED, 3), ProducerOnPartitions(3, {A: 1}), 4, {A}),
        (transaction(ONGOING, 3, A), ProducerOnPartitions(3, {A: 3, B: 3}), 4, {A, B}),
        (transaction(ONGOING, 3, A, B), ProducerOnPartitions(3, {A: 2}), 4, {A, B}),
        (transaction(ONGOING, 3, A), ProducerOnPartitions(8, {}), 9, {A}),
    ],
)
def test_an_unknown_open_transaction_aborts_on_all_its_partitions(
    before: Transaction,
    seen: ProducerOnPartitions,
    epoch: int,
    places: set[TopicPartition],
    version: int,
) -> None:
    after = repaired(before, seen, version)
    assert after is not None
    assert (after.state, after.owner) == (TO_ABORT, Producer(7, epoch))
    assert after.partitions == places


@pytest.mark.parametrize(("state", "goal"), [(COMMITTED, TO_COMMIT), (ABORTED, TO_ABORT)])
def test_a_partition_without_the_marker_of_the_last_transaction_gets_it_again(
    state: TransactionState, goal: TransactionState
) -> None:
    before = transaction(state, 3)
    after = repaired(before, ProducerOnPartitions(3, {A: 2, B: 1}))
    assert after is not None
    assert (after.state, after.owner) == (goal, before.owner)
    assert after.partitions == {A}
    completed = after.completed(NOW_MS)
    assert (completed.state, completed.owner) == (state, before.owner)
    rest = repaired(completed, ProducerOnPartitions(3, {B: 1}))
    assert rest is not None
    assert rest.state is TO_ABORT
    assert rest.partitions == {B}


def test_transactions_with_the_same_epoch_are_not_confused() -> None:
    """Before version 2 the open transaction may be the one after the committed one."""
    after = repaired(
        transaction(COMMITTED, 3, client_version=0), ProducerOnPartitions(3, {A: 3}), 1
    )
    assert after is not None
    assert (after.state, after.producer_epoch, after.client_version) == (TO_ABORT, 4, 0)


def test_a_producer_id_without_further_epochs_is_left_to_the_next_instance() -> None:
    for seen in (
        ProducerOnPartitions(LAST_EPOCH, {}),
        ProducerOnPartitions(FENCING_EPOCH, {}),
        ProducerOnPartitions(LAST_EPOCH, {A: LAST_EPOCH}),
    ):
        after = repaired(transaction(EMPTY, 3), seen)
        assert after is not None
        assert after.is_exhausted


places = st.sampled_from((A, B, C))
epochs = st.integers(0, 5) | st.integers(LAST_EPOCH - 1, LAST_EPOCH)


@given(
    state=st.sampled_from((EMPTY, ONGOING, COMMITTED, ABORTED)),
    epoch=epochs,
    joined=st.frozensets(places, min_size=1),
    open_at=st.dictionaries(places, epochs),
    versions=st.tuples(st.integers(0, 2), st.sampled_from((0, 2))),
)
def test_repairs_leave_no_open_transaction_and_no_later_epoch(
    state: TransactionState,
    epoch: int,
    joined: frozenset[TopicPartition],
    open_at: dict[TopicPartition, int],
    versions: tuple[int, int],
) -> None:
    """Each marker has a later epoch than its transaction, so partitions accept it."""
    version, client_version = versions
    known = joined if state is ONGOING else ()
    found = transaction(state, epoch, *known, client_version=client_version)
    greatest = max(open_at.values(), default=0)
    while (after := repaired(found, ProducerOnPartitions(greatest, open_at), version)) is not None:
        found = after
        if found.state in PREPARED:
            assert all(open_at.pop(it, -1) < found.producer_epoch for it in found.partitions)
            found = found.completed(NOW_MS)
    assert found.producer_epoch >= greatest
    assert state is ONGOING or not open_at
