"""Waits for the flushes of a partition while producers append."""

from __future__ import annotations

import asyncio
import os
import threading
from typing import TYPE_CHECKING

from pykbroker.partitions.flushing import Flushing, FlushThreads
from pykbroker_storage.filesystem import FileSystem
from pykbroker_storage.log import AppendResult
from tests.partitions.local_partitions import LocalPartitions
from tests.storage.batches import NOW, append, batch_bytes

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from pykbroker.partitions.partition import Partition
    from pykbroker_storage.log import Log

FLUSHES_MAX = 20
TIMEOUT_SECONDS = 20


class BusyProducer(FlushThreads):
    """Records arrive during each flush, so that the next flush is due when it ends."""

    def __init__(self) -> None:
        super().__init__()
        self.flushes = 0

    def flush(self, log: Log, upto: int) -> asyncio.Future[None]:
        self.flushes += 1
        log.flush(upto)
        if self.flushes < FLUSHES_MAX:
            append(log, b"next")
        done = asyncio.get_running_loop().create_future()
        done.set_result(None)
        return done


async def test_a_wait_for_a_flush_ends_while_the_partition_flushes_without_pause(
    local: LocalPartitions, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition = local.add("busy", flush_messages="1")
    threads = BusyProducer()
    monkeypatch.setattr(partition.flushing, "_threads", threads)
    append(partition.log, b"first")
    partition.flushing.begin()
    await partition.flushing.until_flushed(2)
    assert partition.log.recovery_point >= 2
    assert threads.flushes < 5


class GatedDisk(FileSystem):
    """Flushes nothing while the gate is shut."""

    def __init__(self) -> None:
        self.has_begun, self.gate = threading.Event(), threading.Event()
        self.gate.set()

        def fdatasync(descriptor: int) -> None:
            self.has_begun.set()
            assert self.gate.wait(TIMEOUT_SECONDS)
            os.fdatasync(descriptor)

        self.fdatasync = fdatasync


async def test_stopping_waits_for_a_flush_that_begins_when_another_ends(tmp_path: Path) -> None:
    disk = GatedDisk()
    local = LocalPartitions(tmp_path, disk=disk)
    partition = local.add("busy", flush_messages="1")
    threads = partition.flushing._threads
    append(partition.log, b"first")
    disk.gate.clear()
    disk.has_begun.clear()
    partition.flushing.begin()
    await asyncio.to_thread(disk.has_begun.wait)
    append(partition.log, b"during the flush")
    ending = asyncio.create_task(threads.end())
    await asyncio.sleep(0)
    disk.gate.set()
    await ending
    assert partition.log.recovery_point == 2
    assert threads._executor is None
    local.directory.abandon()


def test_a_flush_begins_after_flush_messages_records_since_the_last_one(
    local: LocalPartitions, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition = local.add("orders", flush_messages="3", cleanup_policy="delete")
    begun: list[int] = []
    monkeypatch.setattr(Flushing, "begin", lambda *_: begun.append(partition.log.log_end_offset))
    for _ in range(3):
        produce(partition)
    partition.log.flush(3)
    for _ in range(3):
        produce(partition)
    assert begun == [3, 6]


def produce(partition: Partition) -> None:
    batch = memoryview(bytearray(batch_bytes([b"v"])))
    result = partition.leader.append(batch, required_acks=1, produce_version=9, now_ms=NOW)
    assert isinstance(result, AppendResult)
