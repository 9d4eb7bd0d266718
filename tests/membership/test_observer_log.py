"""The copy of the metadata log: appends, divergence and the epochs of a log that restarts."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pykbroker.membership.observer_log import ObserverLog, whole_batches
from pykbroker.metadata.batches import record_batch
from pykbroker.metadata.snapshot import SnapshotName
from pykbroker_protocol.metadata.cluster import NoOpRecord
from pykbroker_storage.batch_preparation import InvalidReplicatedBatch
from pykbroker_storage.configuration import LogConfiguration
from pykbroker_storage.log_directory import LogDirectory


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[LogDirectory]:
    directory = LogDirectory.open(
        str(tmp_path / "data"),
        cluster_id="cluster",
        node_id=7,
        new_directory_id=b"d" * 16,
        configuration=LogConfiguration(),
    )
    yield directory
    directory.abandon()


@pytest.fixture
def log(directory: LogDirectory) -> ObserverLog:
    return ObserverLog.open(directory, now_ms=0)


def batch(offset: int, count: int, epoch: int) -> bytes:
    return record_batch([NoOpRecord()] * count, timestamp_ms=0, base_offset=offset, epoch=epoch)


def append(log: ObserverLog, count: int, epoch: int) -> None:
    log.append(batch(log.end_offset, count, epoch), leader_epoch=epoch, now_ms=0)


def test_an_empty_log_has_epoch_0(log: ObserverLog) -> None:
    assert (log.start_offset, log.end_offset, log.last_epoch) == (0, 0, 0)


def test_the_last_batch_of_a_response_can_be_cut(log: ObserverLog) -> None:
    first, second = batch(0, 2, 1), batch(2, 1, 1)
    log.append(first + second[:-1], leader_epoch=1, now_ms=0)
    assert log.end_offset == 2
    log.append(second, leader_epoch=1, now_ms=0)
    assert log.end_offset == 3


@pytest.mark.parametrize("data", [b"", b"x" * 61, batch(0, 1, 1)[:-1]])
def test_a_response_without_a_complete_batch_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidReplicatedBatch):
        whole_batches(data)


def test_a_leader_of_an_older_epoch_is_refused(log: ObserverLog) -> None:
    append(log, 1, 5)
    with pytest.raises(InvalidReplicatedBatch, match="leader epoch 4 is older than epoch 5"):
        log.append(batch(1, 1, 4), leader_epoch=4, now_ms=0)


@pytest.mark.parametrize(
    ("epoch", "end_offset", "expected"),
    [
        (5, 25, 25),  # the leader's epoch 5 is shorter
        (5, 99, 30),  # this log's epoch 5 is shorter
        (4, 20, 20),  # the leader never had epoch 5
        (4, 12, 12),
        (3, 99, 10),  # the leader has another epoch 3, this log begins epoch 4 at 10
        (2, 7, 7),
        (7, 28, 28),
        (7, 99, 30),
    ],
)
def test_the_log_is_truncated_to_the_end_of_the_largest_common_epoch(
    log: ObserverLog, epoch: int, end_offset: int, expected: int
) -> None:
    for each in (2, 4, 5):
        append(log, 10, each)
    assert log.divergence(epoch, end_offset) == expected


def test_a_log_that_restarts_has_the_epoch_of_its_snapshot(log: ObserverLog) -> None:
    """Records of a deposed leader can have a newer epoch than the snapshot."""
    append(log, 10, 5)
    append(log, 10, 7)
    log.restart(SnapshotName(100, 6), 0)
    assert (log.start_offset, log.end_offset, log.last_epoch) == (100, 100, 6)
    append(log, 3, 6)
    assert (log.end_offset, log.last_epoch) == (103, 6)
    assert log.epoch_at(102) == 6
    assert log.divergence(6, 101) == 101
