import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykbroker_protocol.errors import ErrorCode, Refusal
from pykbroker_protocol.records.batch import SEQUENCE_MAX, RecordBatch
from pykbroker_protocol.records.builder import BatchBuilder
from pykbroker_protocol.records.control import EndTransactionMarker, marker_batch
from pykbroker_storage.producer import BATCHES_KEPT, Duplicate
from pykbroker_storage.producer_state import (
    ActiveProducer,
    CompletedTransaction,
    CorruptSnapshot,
    ProducerStates,
    snapshot_file_name,
)

NOW = 1_700_000_000_000
PRODUCER = 7


def batch(
    sequence: int,
    count: int = 1,
    *,
    epoch: int = 0,
    producer_id: int = PRODUCER,
    is_transactional: bool = False,
    timestamp: int = NOW,
) -> RecordBatch:
    builder = BatchBuilder(
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        is_transactional=is_transactional,
    )
    for _ in range(count):
        builder.append(timestamp, None, b"v")
    return RecordBatch.parse(builder.build())


def in_transaction(sequence: int, *, epoch: int = 0, producer_id: int = PRODUCER) -> RecordBatch:
    return batch(sequence, epoch=epoch, producer_id=producer_id, is_transactional=True)


def marker(
    *, is_commit: bool, epoch: int = 0, producer_id: int = PRODUCER, coordinator_epoch: int = 1
) -> RecordBatch:
    return RecordBatch.parse(
        marker_batch(
            EndTransactionMarker(is_commit=is_commit, coordinator_epoch=coordinator_epoch),
            producer_id=producer_id,
            producer_epoch=epoch,
            timestamp_ms=NOW,
        )
    )


def after(*batches: RecordBatch) -> ProducerStates:
    """Returns the states after these batches were appended in order."""
    states = ProducerStates()
    offset = 0
    for appended in batches:
        states.update(appended, offset)
        offset += appended.last_offset_delta + 1
    return states


def code_of(verdict: Duplicate | Refusal | None) -> ErrorCode:
    assert isinstance(verdict, Refusal)
    return verdict.code


@pytest.mark.parametrize(
    ("appended", "sent"),
    [
        ([], batch(0)),
        ([], batch(90)),  # unknown producer: any sequence is accepted
        ([], batch(5, epoch=3)),
        ([], in_transaction(0)),
        ([batch(0)], batch(1)),
        ([batch(0, 10)], batch(10, 5)),
        ([batch(0), batch(0, epoch=1)], batch(1, epoch=1)),
        ([batch(9)], batch(0, epoch=1)),
        ([batch(9)], batch(0, epoch=4)),
        ([batch(SEQUENCE_MAX)], batch(0)),  # sequences wrap around
        ([batch(SEQUENCE_MAX - 1, 3)], batch(1)),
        ([batch(0)], batch(55, producer_id=8)),
        ([batch(0)], in_transaction(1)),
        ([in_transaction(0), marker(is_commit=True)], batch(1)),
        ([in_transaction(0), marker(is_commit=True, epoch=1)], in_transaction(0, epoch=1)),
    ],
)
def test_a_batch_with_the_next_sequence_is_accepted(
    appended: list[RecordBatch], sent: RecordBatch
) -> None:
    assert after(*appended).check(sent) is None


OUT_OF_ORDER = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


@pytest.mark.parametrize(
    ("appended", "sent", "code"),
    [
        ([batch(0)], batch(2), OUT_OF_ORDER),
        ([batch(0, 10)], batch(9, 2), OUT_OF_ORDER),
        ([batch(0, 10)], batch(0, 9), OUT_OF_ORDER),
        ([batch(SEQUENCE_MAX)], batch(1), OUT_OF_ORDER),
        ([batch(3)], batch(4, epoch=1), OUT_OF_ORDER),
        ([in_transaction(0), marker(is_commit=True, epoch=1)], batch(1, epoch=1), OUT_OF_ORDER),
        ([batch(0, epoch=2)], batch(1, epoch=1), ErrorCode.INVALID_PRODUCER_EPOCH),
        ([batch(0, epoch=2)], batch(0, epoch=1), ErrorCode.INVALID_PRODUCER_EPOCH),
        ([in_transaction(0)], batch(1), ErrorCode.INVALID_TXN_STATE),
    ],
)
def test_a_batch_out_of_sequence_is_rejected(
    appended: list[RecordBatch], sent: RecordBatch, code: ErrorCode
) -> None:
    assert code_of(after(*appended).check(sent)) is code


def test_a_duplicate_batch_returns_its_original_offsets() -> None:
    states = ProducerStates()
    states.update(batch(SEQUENCE_MAX, 3, timestamp=NOW + 5), 100)
    for sequence in range(2, 6):
        states.update(batch(sequence), 200 + sequence)
    duplicate = Duplicate(first_offset=100, last_offset=102, timestamp_ms=NOW + 5)
    assert states.check(batch(SEQUENCE_MAX, 3)) == duplicate
    states.update(batch(6), 300)
    assert code_of(states.check(batch(SEQUENCE_MAX, 3))) is OUT_OF_ORDER


def test_a_batch_of_an_earlier_epoch_is_not_a_duplicate() -> None:
    states = after(batch(0), batch(0, epoch=1))
    assert code_of(states.check(batch(0))) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert states.check(batch(0, epoch=1)) is not None


def test_a_coordinator_s_batches_need_no_sequence() -> None:
    states = after(in_transaction(0), in_transaction(1))
    unnumbered = in_transaction(-1)
    assert states.check(unnumbered, has_sequences=False) is None
    stale = in_transaction(-1, epoch=-1)
    verdict = states.check(stale, has_sequences=False)
    assert code_of(verdict) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_batches_without_producer_id_create_no_state() -> None:
    builder = BatchBuilder()
    builder.append(NOW, None, b"v")
    plain = RecordBatch.parse(builder.build())
    states = after(plain)
    assert states.check(plain) is None
    assert len(states) == 0


def test_a_marker_completes_the_transaction() -> None:
    states = ProducerStates()
    states.update(batch(0), 10)
    assert states.first_unstable_offset is None
    states.update(in_transaction(1), 11)
    states.update(in_transaction(2), 12)
    states.update(in_transaction(0, producer_id=8), 13)
    assert states.first_unstable_offset == states.first_undecided_offset == 11
    assert states.update(marker(is_commit=False), 14) == CompletedTransaction(
        producer_id=PRODUCER,
        first_offset=11,
        last_offset=14,
        is_aborted=True,
        last_stable_offset=13,
    )
    assert states.first_undecided_offset == 13
    assert states.update(marker(is_commit=True, producer_id=8), 15) == CompletedTransaction(
        producer_id=8, first_offset=13, last_offset=15, is_aborted=False, last_stable_offset=16
    )
    assert states.first_undecided_offset is None


def test_a_transaction_is_unstable_until_its_marker_is_committed() -> None:
    states = after(in_transaction(0), marker(is_commit=True), in_transaction(1))
    assert (states.first_unstable_offset, states.first_undecided_offset) == (0, 2)
    states.advance_high_watermark(1)
    assert states.first_unstable_offset == 0
    states.advance_high_watermark(2)
    assert states.first_unstable_offset == 2


def test_a_marker_without_a_transaction_completes_none() -> None:
    states = ProducerStates()
    assert states.update(marker(is_commit=True, epoch=4, coordinator_epoch=3), 0) is None
    assert list(states.active()) == [
        ActiveProducer(
            producer_id=PRODUCER,
            producer_epoch=4,
            last_sequence=-1,
            last_timestamp_ms=NOW,
            coordinator_epoch=3,
            transaction_first_offset=-1,
        )
    ]


@pytest.mark.parametrize(
    ("epoch", "coordinator_epoch", "transaction_version", "code"),
    [
        (5, 1, 0, None),
        (6, 2, 0, None),
        (4, 1, 0, ErrorCode.INVALID_PRODUCER_EPOCH),
        (5, 0, 0, ErrorCode.TRANSACTION_COORDINATOR_FENCED),
        (5, 1, 2, ErrorCode.INVALID_PRODUCER_EPOCH),
        (6, 1, 2, None),
    ],
)
def test_a_marker_with_an_old_epoch_is_rejected(
    epoch: int, coordinator_epoch: int, transaction_version: int, code: ErrorCode | None
) -> None:
    states = after(
        in_transaction(0, epoch=5), marker(is_commit=True, epoch=5), in_transaction(1, epoch=5)
    )
    verdict = states.check_marker(
        EndTransactionMarker(is_commit=True, coordinator_epoch=coordinator_epoch),
        producer_id=PRODUCER,
        producer_epoch=epoch,
        transaction_version=transaction_version,
    )
    assert (verdict and verdict.code) == code


def test_a_repeated_marker_is_accepted() -> None:
    states = after(in_transaction(0, epoch=5), marker(is_commit=True, epoch=6))
    again = EndTransactionMarker(is_commit=True, coordinator_epoch=1)
    for producer_id in (PRODUCER, 99):
        assert (
            states.check_marker(
                again, producer_id=producer_id, producer_epoch=6, transaction_version=2
            )
            is None
        )


def test_inactive_producers_expire_unless_a_transaction_is_open() -> None:
    states = after(
        batch(0, timestamp=NOW),
        batch(0, producer_id=8, timestamp=NOW + 1),
        in_transaction(0, producer_id=9),
    )
    assert states.expire(NOW + 999, 1000) == 0
    assert states.expire(NOW + 1000, 1000) == 1
    assert [producer.producer_id for producer in states.active()] == [8, 9]
    assert states.check(batch(77)) is None


def test_only_the_last_five_batches_are_kept() -> None:
    states = after(*(batch(sequence) for sequence in range(20)))
    duplicates = [isinstance(states.check(batch(sequence)), Duplicate) for sequence in range(20)]
    assert duplicates == [False] * (20 - BATCHES_KEPT) + [True] * BATCHES_KEPT


def a_busy_partition() -> ProducerStates:
    return after(
        batch(0, 3),
        batch(3, 2),
        in_transaction(0, producer_id=8),
        in_transaction(0, producer_id=9),
        marker(is_commit=True, producer_id=8),
        marker(is_commit=True, producer_id=10, epoch=2),
    )


def test_a_snapshot_restores_the_producers() -> None:
    before = a_busy_partition()
    restored = ProducerStates.decode(before.encode())
    assert list(restored.active()) == list(before.active())
    assert restored.first_unstable_offset == before.first_undecided_offset == 6
    assert restored.check(batch(3, 2)) == before.check(batch(3, 2))
    assert isinstance(restored.check(batch(3, 2)), Duplicate)
    assert restored.check(batch(5)) is None
    assert restored.encode() == before.encode()


def test_an_empty_snapshot_is_ten_bytes() -> None:
    assert ProducerStates().encode().hex() == "000148674bc700000000"
    assert len(ProducerStates.decode(ProducerStates().encode())) == 0


def test_a_snapshot_is_named_after_the_offset_it_ends_before() -> None:
    assert snapshot_file_name(1234) == "00000000000000001234.snapshot"


@given(st.data())
def test_a_corrupt_snapshot_raises(data: st.DataObject) -> None:
    stored = bytearray(a_busy_partition().encode())
    if data.draw(st.booleans()):
        del stored[data.draw(st.integers(0, len(stored) - 1)) :]
    else:
        stored[data.draw(st.integers(0, len(stored) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(CorruptSnapshot):
        ProducerStates.decode(bytes(stored))
