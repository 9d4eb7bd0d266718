"""A producer snapshot that is written between appends has the producers of its offset."""

from array import array
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykbroker_storage import log as log_module
from pykbroker_storage import partition_files
from pykbroker_storage.configuration import LogConfiguration
from pykbroker_storage.log import Log
from pykbroker_storage.partition_files import DeferredSnapshot
from pykbroker_storage.producer import Producer
from pykbroker_storage.producer_state import ProducerStates
from tests.storage.batches import NOW, append, open_log

CONFIGURATION = LogConfiguration(segment_bytes=10_000)
PRODUCERS = 7


@pytest.fixture(autouse=True)
def small_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_module, "PRODUCERS_SAVED_AT_ONCE_MAX", 0)
    monkeypatch.setattr(partition_files, "PRODUCERS_PER_SLICE", 2)


def write_round(log: Log, sequence: int) -> None:
    for producer_id in range(PRODUCERS):
        append(log, b"x", producer_id=producer_id, base_sequence=sequence)


def rolled(directory: Path) -> tuple[Log, DeferredSnapshot]:
    log = open_log(directory, CONFIGURATION)
    write_round(log, 0)
    log.roll(NOW)
    assert log.deferred_snapshot is not None
    return log, log.deferred_snapshot


def snapshots(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.glob("*.snapshot*"))


@given(changes=st.lists(st.lists(st.integers(0, 9), max_size=4), max_size=8))
def test_a_deferred_snapshot_has_the_producers_of_its_offset(
    tmp_path_factory: pytest.TempPathFactory, changes: list[list[int]]
) -> None:
    log, snapshot = rolled(tmp_path_factory.mktemp("log"))
    expected = log.producers.encode()
    sequences = {number: count(1 if number < PRODUCERS else 0) for number in range(10)}
    slices = 0
    for _ in snapshot.encode():
        slices += 1
        for producer_id in changes.pop() if changes else ():
            append(log, b"y", producer_id=producer_id, base_sequence=next(sequences[producer_id]))
    assert slices == 4  # two producers each
    after = log.producers.encode()
    snapshot.write()
    log.finish_snapshot(snapshot, is_written=True)
    directory = Path(log.directory)
    (file,) = directory.glob("*.snapshot")
    assert file.read_bytes() == expected
    log.abandon()
    again = open_log(directory, CONFIGURATION)
    assert again.producers.encode() == after == ProducerStates.decode(after).encode()
    again.abandon()


def crash(log: Log) -> None:
    log.abandon()


def truncate(log: Log) -> None:
    log.truncate_to(3, NOW)


def restart_empty(log: Log) -> None:
    log.truncate_fully_and_start_at(PRODUCERS, NOW)


def roll_again(log: Log) -> None:
    write_round(log, 1)
    log.roll(NOW)


def delete(log: Log) -> None:
    roll_again(log)
    log.deferred_snapshot = None
    log.advance_log_start(log.log_end_offset, NOW)


@pytest.mark.parametrize("happen", [crash, truncate, restart_empty, roll_again, delete])
@pytest.mark.parametrize("slices", [1, 4])
def test_a_deferred_snapshot_is_dropped_when_its_offset_is_truncated(
    tmp_path: Path, happen: Callable[[Log], None], slices: int
) -> None:
    log, snapshot = rolled(tmp_path)
    encoding = snapshot.encode()
    for _ in range(slices):
        next(encoding)
    happen(log)
    snapshot.write()
    log.finish_snapshot(snapshot, is_written=True)
    assert snapshots(tmp_path) == []


def test_a_crash_before_a_deferred_snapshot_loses_no_producer(tmp_path: Path) -> None:
    log, snapshot = rolled(tmp_path)
    write_round(log, 1)
    next(snapshot.encode())
    snapshot.write()
    expected = log.producers.encode()
    log.abandon()
    again = open_log(tmp_path, CONFIGURATION)
    assert again.producers.encode() == expected
    assert snapshots(tmp_path) == []


def test_a_deferred_snapshot_is_dropped_on_a_full_disk(tmp_path: Path) -> None:
    log, snapshot = rolled(tmp_path)
    log.finish_snapshot(snapshot, is_written=False)
    assert log.deferred_snapshot is None
    assert snapshots(tmp_path) == []


def test_a_deferred_snapshot_is_dropped_when_its_segment_expires(tmp_path: Path) -> None:
    log, snapshot = rolled(tmp_path)
    write_round(log, 1)
    log.configuration = LogConfiguration(retention_ms=1)
    assert log.enforce_retention(NOW + 10) == 2
    list(snapshot.encode())
    snapshot.write()
    log.finish_snapshot(snapshot, is_written=True)
    assert snapshots(tmp_path) == [f"{2 * PRODUCERS:020d}.snapshot"]  # that of the new segment


def test_finishing_a_deferred_snapshot_does_not_affect_the_next(tmp_path: Path) -> None:
    log, first = rolled(tmp_path)
    roll_again(log)
    second = log.deferred_snapshot
    assert second is not None
    expected = log.producers.encode()
    log.finish_snapshot(first, is_written=False)
    write_round(log, 2)
    list(second.encode())
    second.write()
    log.finish_snapshot(second, is_written=True)
    (file,) = tmp_path.glob("*.snapshot")
    assert file.read_bytes() == expected


def test_a_copy_of_a_producer_is_equal_and_independent() -> None:
    producer = Producer()
    for number, name in enumerate(Producer.__slots__):
        setattr(producer, name, array("q", [number]) if name == "batches" else number)
    copied = producer.copy()
    for name in Producer.__slots__:
        assert getattr(copied, name) == getattr(producer, name)
    copied.batches.append(1)
    assert len(producer.batches) == 1
