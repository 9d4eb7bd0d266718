"""After a truncation the producers are those of a log that was read from its start."""

from __future__ import annotations

from struct import pack_into
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from pykbroker_protocol.records.batch import (
    CHECKED_FROM,
    TRANSACTIONAL_FLAG,
    RecordBatch,
    iterate_batches,
    write_crc,
)
from pykbroker_protocol.records.control import EndTransactionMarker, marker_batch
from pykbroker_storage import producer_truncation
from pykbroker_storage.configuration import LogConfiguration
from pykbroker_storage.producer_state import ProducerStates
from tests.storage.batches import NOW, append, batch_bytes, open_log

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from pykbroker_storage.log import Log

SEGMENTS = LogConfiguration(segment_bytes=700, index_interval_bytes=100)
ACTIONS = ["plain", "idempotent", "transactional", "commit", "abort"]


class Writer:
    """Appends valid batches of several producers."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.sequences: dict[int, int] = {}

    def write(self, action: str, producer: int) -> None:
        match action:
            case "plain":
                append(self.log, b"x")
            case "commit" | "abort":
                self.end_transaction(producer + 100, is_commit=action == "commit")
            case "idempotent":
                self.append(producer, attributes=0)
            case _:
                self.append(producer + 100, attributes=TRANSACTIONAL_FLAG)

    def append(self, producer_id: int, *, attributes: int) -> None:
        sequence = self.sequences.get(producer_id, 0)
        self.sequences[producer_id] = sequence + 2
        records = batch_bytes((b"a", b"b"), producer_id=producer_id, base_sequence=sequence)
        pack_into(">h", records, CHECKED_FROM, attributes)
        write_crc(records)
        self.log.append(records, list(iterate_batches(records)), 0, NOW)

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        marker = marker_batch(
            EndTransactionMarker(is_commit=is_commit, coordinator_epoch=0),
            producer_id=producer_id,
            producer_epoch=0,
            timestamp_ms=NOW,
        )
        batch = RecordBatch.parse(memoryview(bytearray(marker)))
        self.log.append(batch.view, [batch], 0, NOW)


def all_batches(log: Log) -> list[RecordBatch]:
    return [
        batch for segment in log.segments() for batch in iterate_batches(segment.file.view_all())
    ]


def read_from_start(log: Log) -> tuple[ProducerStates, list[tuple[int, ...]]]:
    states = ProducerStates()
    aborted: list[tuple[int, ...]] = []
    for batch in all_batches(log):
        ended = states.update(batch)
        if ended is not None and ended.is_aborted:
            aborted.append(tuple(ended.as_aborted()))
    return states, aborted


@settings(deadline=None)
@given(data=st.data())
def test_truncated_states_equal_those_of_the_remaining_batches(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    log = open_log(tmp_path_factory.mktemp("log"), SEGMENTS)
    writer = Writer(log)
    writing = st.tuples(st.sampled_from(ACTIONS), st.integers(0, 2))
    committed = 0
    for _ in range(data.draw(st.integers(1, 3))):
        for action, producer in data.draw(st.lists(writing, max_size=40)):
            writer.write(action, producer)
        committed = data.draw(st.integers(committed, log.log_end_offset))
        log.producers.advance_high_watermark(committed)
        log.truncate_to(data.draw(st.integers(committed, log.log_end_offset)), NOW)
        committed = min(committed, log.log_end_offset)
        log.producers.advance_high_watermark(committed)
        expected, aborted = read_from_start(log)
        expected.advance_high_watermark(committed)
        assert states_of(log.producers) == states_of(expected)
        found = log.aborted_transactions(0, log.log_end_offset)
        assert [tuple(it) for it in found] == aborted
        writer.sequences = {it.producer_id: it.last_sequence + 1 for it in log.producers.active()}
    log.abandon()


def states_of(states: ProducerStates) -> object:
    producers = {it.producer_id: it for it in states.active()}
    return (
        producers,
        sorted(states.last_written()),
        states.first_undecided_offset,
        states.first_unstable_offset,
    )


def test_the_oldest_open_transaction_stays_first(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfiguration())
    writer = Writer(log)
    for producer in (0, 1, 0):
        writer.write("transactional", producer)
    log.truncate_to(4, NOW)
    assert log.producers.first_undecided_offset == 0


def test_batches_of_other_producers_are_not_decoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log(tmp_path, LogConfiguration())
    writer = Writer(log)
    for number in range(100):
        writer.write("idempotent", number % 10)
    decoded: list[int] = []

    class Counting(RecordBatch):
        @classmethod
        def parse(cls, buffer: object, position: int = 0) -> Counting:
            batch = super().parse(buffer, position)  # type: ignore[arg-type]
            decoded.append(batch.producer_id)
            return batch

    monkeypatch.setattr(producer_truncation, "RecordBatch", Counting)
    log.truncate_to(log.log_end_offset - 2, NOW)
    assert decoded == [9] * 5


def test_a_truncation_of_many_bytes_reads_the_log_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producer_truncation, "REMOVED_BYTES_MAX", 100)
    log = open_log(tmp_path, LogConfiguration())
    writer = Writer(log)
    for number in range(20):
        writer.write("idempotent", number % 3)
    log.truncate_to(10, NOW)
    expected, _ = read_from_start(log)
    assert states_of(log.producers) == states_of(expected)
