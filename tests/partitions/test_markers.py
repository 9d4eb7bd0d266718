"""Transaction markers in a partition: admission, and the last stable offset."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pykbroker.partitions.partition import Partition
from pykbroker_protocol.errors import ErrorCode, Refusal
from pykbroker_protocol.records.batch import iterate_batches
from pykbroker_protocol.records.control import EndTransactionMarker, decode_marker
from pykbroker_storage.log import AppendResult
from tests.partitions.transactions import OTHER, end, open_partition, write
from tests.storage.batches import NOW, batch_bytes


@pytest.fixture
def partition(tmp_path: Path) -> Iterator[Partition]:
    with open_partition(tmp_path / "t-0") as partition:
        yield partition


@pytest.mark.parametrize("committed", [True, False])
def test_a_marker_advances_the_last_stable_offset(partition: Partition, *, committed: bool) -> None:
    write(partition, b"a", b"b")
    assert (partition.last_stable_offset, partition.high_watermark) == (0, 2)
    assert end(partition, committed=committed) == AppendResult(2, 2, -1, 0)
    assert (partition.last_stable_offset, partition.high_watermark) == (3, 3)


def test_the_marker_contains_commit_or_abort(partition: Partition) -> None:
    write(partition, b"a")
    end(partition, committed=False, coordinator_epoch=5)
    found = partition.log.read(1, bytes_max=1000, end_offset=2)
    assert found is not None
    (batch,) = iterate_batches(found.view)
    (record,) = batch.records()
    marker = EndTransactionMarker(is_commit=False, coordinator_epoch=5)
    assert decode_marker(record.key, record.value) == marker
    assert record.timestamp == NOW


def test_the_last_stable_offset_is_that_of_the_oldest_open_transaction(
    partition: Partition,
) -> None:
    write(partition, b"a")
    write(partition, b"b", producer_id=OTHER)
    end(partition, committed=True, producer_id=OTHER)
    assert partition.last_stable_offset == 0
    end(partition, committed=True)
    assert partition.last_stable_offset == 4


@pytest.mark.parametrize(
    ("marker", "code"),
    [
        ({"producer_epoch": 2}, ErrorCode.INVALID_PRODUCER_EPOCH),
        ({"coordinator_epoch": 3}, ErrorCode.TRANSACTION_COORDINATOR_FENCED),
        ({"producer_epoch": 3, "transaction_version": 2}, ErrorCode.INVALID_PRODUCER_EPOCH),
    ],
)
def test_a_marker_of_an_older_epoch_is_refused(
    partition: Partition, marker: dict[str, int], code: ErrorCode
) -> None:
    write(partition, b"a", producer_epoch=3)
    end(partition, committed=True, producer_epoch=3, coordinator_epoch=4)
    write(partition, b"b", producer_epoch=3, base_sequence=1)
    outcome = end(
        partition, committed=False, **({"producer_epoch": 3, "coordinator_epoch": 4} | marker)
    )
    assert isinstance(outcome, Refusal)
    assert outcome.code is code
    assert partition.log.log_end_offset == 3


def test_a_marker_needs_min_insync_replicas(tmp_path: Path) -> None:
    with open_partition(tmp_path / "t-0", min_insync_replicas="2") as partition:
        assert end(partition, committed=True) == Refusal(ErrorCode.NOT_ENOUGH_REPLICAS)


def test_a_marker_needs_at_most_as_many_in_sync_replicas_as_there_are_replicas(
    tmp_path: Path,
) -> None:
    with open_partition(tmp_path / "t-0", min_insync_replicas="3", in_sync=(1, 2)) as partition:
        assert isinstance(end(partition, committed=True), AppendResult)


def test_the_last_stable_offset_advances_once_the_marker_is_committed(tmp_path: Path) -> None:
    with open_partition(tmp_path / "t-0", in_sync=(1, 2)) as partition:
        write(partition, b"a")
        end(partition, committed=True)
        assert (partition.last_stable_offset, partition.high_watermark) == (0, 0)


def test_committed_transactions_are_stable_after_a_restart(tmp_path: Path) -> None:
    with open_partition(tmp_path / "t-0") as partition:
        write(partition, b"a")
        end(partition, committed=True)
    with open_partition(tmp_path / "t-0", was_clean=False) as partition:
        assert partition.last_stable_offset == 2


def test_an_open_transaction_is_still_open_after_a_restart(tmp_path: Path) -> None:
    with open_partition(tmp_path / "t-0") as partition:
        partition.leader.append(
            memoryview(batch_bytes([b"plain"])), required_acks=1, produce_version=9, now_ms=NOW
        )
        write(partition, b"a")
        partition.log.close()
    with open_partition(tmp_path / "t-0") as partition:
        assert partition.last_stable_offset == 1
        end(partition, committed=True)
        assert partition.last_stable_offset == 3
