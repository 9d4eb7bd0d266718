"""Verification of the first batch of a transaction in a partition."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pykbroker.partitions.joining import JoiningProducers
from pykbroker.partitions.partition import Partition
from pykbroker_protocol.errors import ErrorCode, Refusal
from pykbroker_storage.log import AppendResult
from tests.partitions.transactions import (
    OTHER,
    PRODUCER,
    end,
    join,
    open_partition,
    transactional_batch,
    write,
)
from tests.storage.batches import NOW


@pytest.fixture
def partition(tmp_path: Path) -> Iterator[Partition]:
    with open_partition(tmp_path / "t-0") as partition:
        yield partition


def code(outcome: AppendResult | Refusal) -> ErrorCode:
    return outcome.code if isinstance(outcome, Refusal) else ErrorCode.NONE


def first_batch(partition: Partition, base_sequence: int = 0, epoch: int = 0) -> ErrorCode:
    outcome = write(partition, b"x", base_sequence=base_sequence, producer_epoch=epoch, joins=False)
    return code(outcome)


# --- admission


def test_an_unverified_transaction_does_not_begin(
    partition: Partition,
) -> None:
    assert first_batch(partition) is ErrorCode.INVALID_TXN_STATE
    assert partition.log.log_end_offset == 0


def test_a_transaction_does_not_begin_before_its_verification_ends(partition: Partition) -> None:
    joining = partition.leader.joining.ask(PRODUCER, 0, 0, begins_at_zero=True, now_ms=NOW)
    assert first_batch(partition) is ErrorCode.INVALID_TXN_STATE
    partition.leader.joining.answered(PRODUCER, joining, has_joined=True)
    assert first_batch(partition) is ErrorCode.NONE


def test_a_verification_is_valid_for_one_producer_epoch(partition: Partition) -> None:
    join(partition, producer_epoch=3)
    assert first_batch(partition, epoch=2) is ErrorCode.INVALID_TXN_STATE
    assert first_batch(partition, epoch=4) is ErrorCode.INVALID_TXN_STATE
    other = write(partition, b"x", producer_id=OTHER, producer_epoch=3, joins=False)
    assert code(other) is ErrorCode.INVALID_TXN_STATE
    assert first_batch(partition, epoch=3) is ErrorCode.NONE


def test_a_transaction_in_progress_needs_no_verification(partition: Partition) -> None:
    join(partition)
    assert [first_batch(partition, sequence) for sequence in range(3)] == [ErrorCode.NONE] * 3
    assert len(partition.leader.joining) == 0


def test_the_next_transaction_needs_its_own_verification(partition: Partition) -> None:
    join(partition)
    first_batch(partition)
    end(partition, committed=True)
    assert first_batch(partition, 1) is ErrorCode.INVALID_TXN_STATE


def test_a_verification_is_invalid_after_the_end_of_the_transaction(partition: Partition) -> None:
    joining = partition.leader.joining.ask(PRODUCER, 0, 0, begins_at_zero=False, now_ms=NOW)
    end(partition, committed=False)
    partition.leader.joining.answered(PRODUCER, joining, has_joined=True)
    assert first_batch(partition) is ErrorCode.INVALID_TXN_STATE


def test_a_verification_of_an_older_epoch_is_not_valid_for_a_newer_one(
    partition: Partition,
) -> None:
    older = partition.leader.joining.ask(PRODUCER, 0, 0, begins_at_zero=True, now_ms=NOW)
    partition.leader.joining.ask(PRODUCER, 1, 0, begins_at_zero=True, now_ms=NOW)
    partition.leader.joining.answered(PRODUCER, older, has_joined=True)
    assert first_batch(partition, epoch=1) is ErrorCode.INVALID_TXN_STATE
    assert first_batch(partition, epoch=0) is ErrorCode.NONE


def test_a_batch_resent_after_the_end_of_its_transaction_is_a_duplicate(
    partition: Partition,
) -> None:
    join(partition)
    first_batch(partition)
    end(partition, committed=True)
    assert write(partition, b"x", joins=False) == AppendResult(0, 0, NOW, 0)


def test_a_batch_outside_of_transactions_needs_no_verification(partition: Partition) -> None:
    batch = transactional_batch(b"x", is_transactional=False)
    assert code(partition.leader.write_once(batch, NOW)) is ErrorCode.NONE


@pytest.mark.parametrize(
    ("marker_epoch", "transaction_version", "still_asking"),
    [
        pytest.param(5, 0, [6, 7], id="version 0, whose transactions share an epoch"),
        pytest.param(5, 1, [6, 7], id="version 1, likewise"),
        pytest.param(6, 1, [7], id="version 1, aborted in another epoch since its time was up"),
        pytest.param(6, 2, [6, 7], id="version 2, whose next transaction has the marker's epoch"),
        pytest.param(7, 2, [7], id="version 2, one later"),
        pytest.param(5, 2, [5, 6, 7], id="version 2, resent much later"),
        pytest.param(2**15 - 1, 2, [], id="version 2, the last epoch there is"),
    ],
)
def test_a_marker_keeps_verifications_of_later_epochs(
    partition: Partition, marker_epoch: int, transaction_version: int, still_asking: list[int]
) -> None:
    asked = {
        epoch: partition.leader.joining.ask(PRODUCER, epoch, 0, begins_at_zero=True, now_ms=NOW)
        for epoch in (5, 6, 7)
    }
    end(
        partition,
        committed=True,
        producer_epoch=marker_epoch,
        transaction_version=transaction_version,
    )
    for joining in asked.values():
        partition.leader.joining.answered(PRODUCER, joining, has_joined=True)
    assert [epoch for epoch in asked if has_joined(partition, epoch)] == still_asking


def has_joined(partition: Partition, epoch: int) -> bool:
    batch = transactional_batch(b"x", producer_epoch=epoch)
    return partition.leader.joining.verdict_on_first(batch, None, is_known=False) is None


def test_a_repeated_marker_does_not_end_the_next_transaction(
    partition: Partition,
) -> None:
    write(partition, b"x")
    end(partition, committed=True, producer_epoch=1, transaction_version=2)
    join(partition, producer_epoch=1)
    end(partition, committed=True, producer_epoch=1, transaction_version=2)
    assert first_batch(partition, epoch=1) is ErrorCode.NONE


def test_a_late_first_batch_keeps_the_verification_of_the_next_epoch(
    partition: Partition,
) -> None:
    join(partition)
    join(partition, producer_epoch=1)
    assert first_batch(partition) is ErrorCode.NONE
    end(partition, committed=True, producer_epoch=1, transaction_version=2)
    assert first_batch(partition, epoch=1) is ErrorCode.NONE


# --- order


@pytest.mark.parametrize("begins_at_zero", [False, True])
def test_the_lowest_base_sequence_of_pending_batches_is_appended_first(
    partition: Partition, *, begins_at_zero: bool
) -> None:
    for sequence in (0, 1, 2):
        joining = partition.leader.joining.ask(
            PRODUCER, 0, sequence, begins_at_zero=begins_at_zero, now_ms=NOW
        )
        partition.leader.joining.answered(PRODUCER, joining, has_joined=True)
    assert first_batch(partition, 1) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert first_batch(partition, 0) is ErrorCode.NONE
    assert first_batch(partition, 1) is ErrorCode.NONE


def test_an_unknown_producer_of_transaction_version_2_begins_with_sequence_0(
    partition: Partition,
) -> None:
    joining = partition.leader.joining.ask(PRODUCER, 0, 5, begins_at_zero=True, now_ms=NOW)
    partition.leader.joining.answered(PRODUCER, joining, has_joined=True)
    assert first_batch(partition, 5) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_an_unknown_producer_of_transaction_version_1_may_continue_its_sequence(
    partition: Partition,
) -> None:
    join(partition, base_sequence=5)
    assert first_batch(partition, 5) is ErrorCode.NONE


def test_a_known_producer_continues_its_sequence(partition: Partition) -> None:
    write(partition, b"x")
    end(partition, committed=True)
    join(partition, base_sequence=1)
    assert first_batch(partition, 1) is ErrorCode.NONE


# --- expiry


def test_a_refused_verification_is_discarded() -> None:
    producers = JoiningProducers()
    first, second = (
        producers.ask(PRODUCER, 0, sequence, begins_at_zero=True, now_ms=NOW) for sequence in (0, 1)
    )
    producers.answered(PRODUCER, first, has_joined=False)
    assert len(producers) == 1
    other_epoch = producers.ask(PRODUCER, 7, 0, begins_at_zero=True, now_ms=NOW)
    producers.answered(PRODUCER, second, has_joined=False)
    assert len(producers) == 1
    producers.answered(PRODUCER, other_epoch, has_joined=False)
    assert len(producers) == 0


def test_an_unused_verification_expires() -> None:
    producers = JoiningProducers()
    producers.ask(PRODUCER, 0, 0, begins_at_zero=True, now_ms=NOW)
    producers.ask(OTHER, 0, 0, begins_at_zero=True, now_ms=NOW + 10)
    producers.expire(NOW + 100, 95)
    assert len(producers) == 1
