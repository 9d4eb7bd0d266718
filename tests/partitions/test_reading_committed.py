"""Reads with isolation level read_committed, and completion of waiting fetches."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from pykbroker.partitions.isolation import Isolation, Reader
from pykbroker.partitions.partition import Partition
from pykbroker.partitions.reading import Fetched
from pykbroker.partitions.waiting import FetchWait
from pykbroker_protocol.errors import ErrorCode, Refusal
from pykbroker_protocol.records.batch import iterate_batches
from pykbroker_storage.log import AppendResult
from tests.partitions import reading
from tests.partitions.transactions import OTHER, PRODUCER, end, open_partition, write
from tests.storage.batches import NOW


@pytest.fixture
def partition(tmp_path: Path) -> Iterator[Partition]:
    with open_partition(tmp_path / "t-0") as partition:
        yield partition


def read(
    partition: Partition,
    offset: int = 0,
    *,
    isolation: Isolation = Isolation.READ_COMMITTED,
    reader: Reader = Reader.CONSUMER,
    bytes_max: int = 10_000,
) -> Fetched:
    found = reading.read(partition, offset, bytes_max=bytes_max, isolation=isolation, reader=reader)
    assert isinstance(found, Fetched)
    return found


def offsets(found: Fetched) -> list[int]:
    return [batch.base_offset for batch in iterate_batches(found.records)]


def aborted(found: Fetched) -> list[tuple[int, int]]:
    assert found.aborted is not None
    return [(it.producer_id, it.first_offset) for it in found.aborted]


# --- results


def test_read_committed_ends_before_an_open_transaction(
    partition: Partition,
) -> None:
    write(partition, b"a")
    end(partition, committed=True)
    write(partition, b"b", base_sequence=1)
    write(partition, b"c", producer_id=OTHER)
    end(partition, committed=True, producer_id=OTHER)
    assert offsets(read(partition)) == [0, 1]
    assert aborted(read(partition)) == []
    assert offsets(read(partition, isolation=Isolation.READ_UNCOMMITTED)) == [0, 1, 2, 3, 4]
    assert offsets(read(partition, 2)) == []
    assert aborted(read(partition, 2)) == []


def test_read_committed_gets_the_aborted_transactions(partition: Partition) -> None:
    write(partition, b"a")
    write(partition, b"b", producer_id=OTHER)
    end(partition, committed=False)
    end(partition, committed=False, producer_id=OTHER)
    assert offsets(read(partition)) == [0, 1, 2, 3]
    assert aborted(read(partition)) == [(PRODUCER, 0), (OTHER, 1)]
    assert aborted(read(partition, 3)) == [(OTHER, 1)]
    assert aborted(read(partition, bytes_max=1)) == [(PRODUCER, 0)]


@pytest.mark.parametrize(
    ("isolation", "reader"),
    [
        (Isolation.READ_UNCOMMITTED, Reader.CONSUMER),
        (Isolation.READ_UNCOMMITTED, Reader.FOLLOWER),
        (Isolation.READ_COMMITTED, Reader.FOLLOWER),
    ],
)
def test_other_readers_do_not_get_aborted_transactions(
    partition: Partition, isolation: Isolation, reader: Reader
) -> None:
    write(partition, b"a")
    end(partition, committed=False)
    assert read(partition, isolation=isolation, reader=reader).aborted is None


def test_an_open_transaction_with_deleted_records_bounds_reads_at_the_log_start(
    partition: Partition,
) -> None:
    write(partition, b"a", b"b", b"c")
    partition.delete_records_before(2, NOW)
    assert partition.last_stable_offset == 2
    assert offsets(read(partition, 2)) == []


# --- waiting fetches


def awaited(partition: Partition, isolation: Isolation, bytes_missing: int = 1) -> FetchWait:
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    waiting = FetchWait(bytes_missing, isolation, done)
    partition.waiting.fetches[waiting] = None
    return waiting


async def test_read_committed_fetch_completes_at_the_marker_not_at_the_data(
    partition: Partition,
) -> None:
    careful = awaited(partition, Isolation.READ_COMMITTED)
    careless = awaited(partition, Isolation.READ_UNCOMMITTED)
    write(partition, b"a")
    assert (careful.done.done(), careless.done.done()) == (False, True)
    end(partition, committed=False)
    assert careful.done.done()


async def test_a_marker_counts_all_bytes_of_its_transaction_for_a_waiting_fetch(
    partition: Partition,
) -> None:
    size = partition.log.size_bytes
    write(partition, bytes(1000))
    patient = awaited(partition, Isolation.READ_COMMITTED, bytes_missing=1000)
    more_patient = awaited(partition, Isolation.READ_COMMITTED, bytes_missing=2000)
    end(partition, committed=True)
    assert partition.log.size_bytes - size > 1000
    assert (patient.done.done(), more_patient.done.done()) == (True, False)


async def test_a_marker_completes_the_fetch_of_a_corrupt_transaction_with_an_error(
    tmp_path: Path,
) -> None:
    with open_partition(tmp_path / "t-0") as before:
        write(before, b"a")
        before.log.close()
    (log_file,) = (tmp_path / "t-0").glob("*.log")
    stored = bytearray(log_file.read_bytes())
    stored[-2] ^= 0x10
    log_file.write_bytes(stored)
    with open_partition(tmp_path / "t-0") as partition:
        careful = awaited(partition, Isolation.READ_COMMITTED)
        assert isinstance(end(partition, committed=True), AppendResult)
        assert careful.done.done()
        refused = reading.read(partition, isolation=Isolation.READ_COMMITTED)
        assert refused == Refusal(ErrorCode.CORRUPT_MESSAGE)


async def test_a_marker_behind_an_older_open_transaction_completes_no_fetch(
    partition: Partition,
) -> None:
    write(partition, b"a")
    careful = awaited(partition, Isolation.READ_COMMITTED)
    write(partition, b"b", producer_id=OTHER)
    end(partition, committed=True, producer_id=OTHER)
    assert not careful.done.done()


async def test_the_marker_of_a_transaction_over_several_segments_completes_waiting_fetches(
    tmp_path: Path,
) -> None:
    with open_partition(tmp_path / "t-0", segment_bytes="1048576") as partition:
        write(partition, bytes(600_000))
        careful = awaited(partition, Isolation.READ_COMMITTED, bytes_missing=1_000_000)
        write(partition, bytes(600_000), base_sequence=1)
        assert partition.log.segment_count == 2
        assert not careful.done.done()
        end(partition, committed=True)
        assert careful.done.done()
