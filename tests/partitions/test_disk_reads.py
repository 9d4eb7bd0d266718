"""Reads from disk: other partitions are served meanwhile, errors concern one partition."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import TYPE_CHECKING

import pytest

from pykbroker.partitions.disk_reads import (
    READ_BYTES_MAX,
    TRIES_MAX,
    read_from_disk,
    record_at,
    run_on_read_view,
)
from pykbroker.partitions.isolation import Isolation
from pykbroker.partitions.off_loop import OffLoop
from pykbroker.partitions.reading import Fetched
from pykbroker.partitions.reading import read as read_cached
from pykbroker_protocol.errors import ErrorCode, Refusal
from pykbroker_protocol.records.builder import BatchBuilder
from pykbroker_protocol.records.compression import Compression
from tests.partitions import reading
from tests.partitions.local_partitions import LocalPartitions
from tests.storage.batches import NOW, append
from tests.storage.disks import ColdDisk

if TYPE_CHECKING:
    from pathlib import Path

    from pykbroker.partitions.partition import Partition
    from pykbroker_storage.read_view import ReadView

EVERYTHING = range(1 << 40)
TIMEOUT_SECONDS = 20


@pytest.fixture
def disk() -> ColdDisk:
    return ColdDisk()


@pytest.fixture
def local(tmp_path: Path, disk: ColdDisk) -> LocalPartitions:
    return LocalPartitions(tmp_path, disk=disk)


def filled(local: LocalPartitions, name: str, *, batches: int = 3, size: int = 100) -> Partition:
    partition = local.add(name, cleanup_policy="delete")
    for _ in range(batches):
        append(partition.log, b"x" * size)
    partition.commit()
    return partition


async def from_disk(partition: Partition, offset: int = 0, **how: int) -> Fetched | Refusal:
    return await read_from_disk(
        partition,
        offset,
        bytes_max=how.get("bytes_max", 1 << 30),
        isolation=Isolation.READ_UNCOMMITTED,
        first_batch_whole=True,
    )


async def test_a_partition_is_served_while_another_waits_for_the_disk(
    local: LocalPartitions, disk: ColdDisk
) -> None:
    slow, quick = filled(local, "slow"), filled(local, "quick")
    slow.off_loop = OffLoop(disk_threads_max=1, bytes_held_max=1 << 20)
    spins, begun = threading.Event(), threading.Event()
    bare = disk.pread

    def pread(descriptor: int, count: int, position: int) -> bytes:
        begun.set()
        spins.wait()
        return bare(descriptor, count, position)

    disk.pread = pread
    waiting = asyncio.create_task(from_disk(slow))
    await asyncio.to_thread(begun.wait)
    disk.cached.append(EVERYTHING)
    found = read_cached(
        quick, 0, bytes_max=1000, isolation=Isolation.READ_UNCOMMITTED, first_batch_whole=True
    )
    assert isinstance(found, Fetched)
    append(slow.log, b"more")
    assert not waiting.done()
    spins.set()
    late = await waiting
    assert isinstance(late, Fetched)
    assert late.records[: len(found.records)] == found.records
    await slow.off_loop.close()


async def test_a_batch_is_inspected_while_all_searches_by_time_wait_for_the_disk(
    local: LocalPartitions, disk: ColdDisk
) -> None:
    cold, compacted = filled(local, "cold"), local.add("compacted")
    off_loop = cold.off_loop = compacted.off_loop = OffLoop(disk_threads_max=1, bytes_held_max=1)
    spins, begun = threading.Event(), threading.Event()
    bare = disk.pread

    def pread(descriptor: int, count: int, position: int) -> bytes:
        begun.set()
        spins.wait()
        return bare(descriptor, count, position)

    disk.pread = pread
    searches = [asyncio.create_task(record_at(cold, NOW)) for _ in range(3)]
    await asyncio.to_thread(begun.wait)
    builder = BatchBuilder(compression=Compression.GZIP)
    builder.append(NOW, b"k", b"v")
    records = memoryview(bytearray(builder.build()))
    written = compacted.leader.append(records, required_acks=1, produce_version=9, now_ms=NOW)
    assert isinstance(written, asyncio.Task)
    await asyncio.wait([written], timeout=TIMEOUT_SECONDS)
    assert written.done()
    assert not any(it.done() for it in searches)
    spins.set()
    await asyncio.gather(*searches)
    await off_loop.close()


async def test_one_read_from_disk_is_bounded_and_its_first_batch_is_whole(
    local: LocalPartitions,
) -> None:
    partition = filled(local, "t", batches=20, size=READ_BYTES_MAX // 8)
    found = await from_disk(partition)
    assert isinstance(found, Fetched)
    assert READ_BYTES_MAX * 0.8 < len(found.records) <= READ_BYTES_MAX
    whole = await from_disk(partition, bytes_max=10)
    assert isinstance(whole, Fetched)
    assert len(whole.records) > READ_BYTES_MAX // 8


async def test_a_disk_error_affects_one_partition_and_is_logged_once(
    local: LocalPartitions, disk: ColdDisk, caplog: pytest.LogCaptureFixture
) -> None:
    partition = filled(local, "t")
    disk.broken.append(EVERYTHING)
    with caplog.at_level(logging.INFO):
        for _ in range(3):
            assert await from_disk(partition) == Refusal(ErrorCode.KAFKA_STORAGE_ERROR)
        assert [it.levelname for it in caplog.records] == ["ERROR"]
        assert "t-0: stored records cannot be read at offset 0" in caplog.text
        disk.broken.clear()
        assert isinstance(await from_disk(partition), Fetched)
    assert caplog.messages[1:] == ["t-0: stored records can be read again"]


def test_a_missing_segment_is_an_error_of_its_partition(local: LocalPartitions) -> None:
    partition = filled(local, "t")
    partition.log.segments()[0].file.release()
    local.disk.unlink(partition.log.segments()[0].path(".log"))
    assert reading.read(partition) == Refusal(ErrorCode.KAFKA_STORAGE_ERROR)


async def test_a_read_is_repeated_when_its_segment_was_rewritten(local: LocalPartitions) -> None:
    log = filled(local, "t").log
    tries = []

    def work(frozen: ReadView) -> int:
        tries.append(frozen)
        if len(tries) < TRIES_MAX:
            log.truncate_to(log.log_end_offset - 1, NOW)
        return log.log_end_offset

    assert await run_on_read_view(log, reading.AtOnce().read, work) == 1
    tries.clear()
    log.truncate_fully_and_start_at(0, NOW)
    for _ in range(TRIES_MAX):
        append(log, b"x")

    def unlucky(_: ReadView) -> None:
        log.truncate_to(log.log_end_offset - 1, NOW)

    with pytest.raises(OSError, match="deleted or replaced"):
        await run_on_read_view(log, reading.AtOnce().read, unlucky)


async def test_bytes_from_disk_are_counted_until_the_last_view_is_released(
    local: LocalPartitions, disk: ColdDisk
) -> None:
    partition = filled(local, "t")
    off_loop = partition.off_loop
    first = await from_disk(partition)
    assert isinstance(first, Fetched)
    size = len(first.records)
    assert off_loop.bytes_held == size
    off_loop.bytes_held_max = size
    disk.cached.append(EVERYTHING)
    second = await from_disk(partition)
    assert isinstance(second, Fetched)
    assert second.records == first.records
    assert off_loop.bytes_held == size  # the second is a view of cached bytes
    piece = first.records[:1]
    del first
    assert off_loop.bytes_held == size
    del piece
    assert off_loop.bytes_held == 0


async def test_the_number_of_threads_can_change_while_they_work() -> None:
    off_loop = OffLoop(disk_threads_max=1, bytes_held_max=1)
    gate = threading.Event()
    waiting = asyncio.create_task(off_loop.read(gate.wait))
    await asyncio.sleep(0)
    off_loop.resize(2)
    assert await off_loop.read(threading.active_count) >= 2
    gate.set()
    assert await waiting
    await off_loop.close()
