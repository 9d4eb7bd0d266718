"""The end of a transaction, as it comes to a partition: who may write it, and what it moves."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pykbroker.partitions.partition import Partition
from pykbroker_protocol.errors import ErrorCode, Refusal
from pykbroker_protocol.records.batch import iterate_batches
from pykbroker_protocol.records.control import EndTransactionMarker, decode_marker
from pykbroker_storage.log import AppendResult
from tests.partitions.transacting import OTHER, end, open_partition, write
from tests.storage.batches import NOW, batch_bytes


@pytest.fixture
def partition(tmp_path: Path) -> Iterator[Partition]:
    with open_partition(tmp_path / "t-0") as partition:
        yield partition


@pytest.mark.parametrize("committed", [True, False])
def test_the_end_of_a_transaction_lets_readers_of_committed_records_go_on(
    partition: Partition, *, committed: bool
) -> None:
    write(partition, b"a", b"b")
    assert (partition.last_stable_offset, partition.high_watermark) == (0, 2)
    assert end(partition, committed=committed) == AppendResult(2, 2, -1, 0)
    assert (partition.last_stable_offset, partition.high_watermark) == (3, 3)


def test_the_marker_in_the_log_says_how_it_ended(partition: Partition) -> None:
    write(partition, b"a")
    end(partition, committed=False, coordinator_epoch=5)
    found = partition.log.read(1, bytes_max=1000, end_offset=2)
    assert found is not None
    (batch,) = iterate_batches(found.view)
    (record,) = batch.records()
    marker = EndTransactionMarker(is_commit=False, coordinator_epoch=5)
    assert decode_marker(record.key, record.value) == marker
    assert record.timestamp == NOW


def test_the_oldest_open_transaction_holds_back_what_others_have_finished(
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
def test_an_end_that_comes_too_late_is_refused(
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


def test_an_end_needs_as_many_in_sync_replicas_as_acks_all_does(tmp_path: Path) -> None:
    with open_partition(tmp_path / "t-0", min_insync_replicas="2") as partition:
        assert end(partition, committed=True) == Refusal(ErrorCode.NOT_ENOUGH_REPLICAS)


def test_an_end_asks_for_no_more_copies_than_there_are_replicas(tmp_path: Path) -> None:
    with open_partition(tmp_path / "t-0", min_insync_replicas="3", in_sync=(1, 2)) as partition:
        assert isinstance(end(partition, committed=True), AppendResult)


def test_an_end_is_stable_once_the_replicas_have_its_marker(tmp_path: Path) -> None:
    with open_partition(tmp_path / "t-0", in_sync=(1, 2)) as partition:
        write(partition, b"a")
        end(partition, committed=True)
        assert (partition.last_stable_offset, partition.high_watermark) == (0, 0)


def test_after_a_restart_the_committed_transactions_are_stable(tmp_path: Path) -> None:
    with open_partition(tmp_path / "t-0") as partition:
        write(partition, b"a")
        end(partition, committed=True)
    with open_partition(tmp_path / "t-0", was_clean=False) as partition:
        assert partition.last_stable_offset == 2


def test_after_a_restart_an_open_transaction_is_still_open(tmp_path: Path) -> None:
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
