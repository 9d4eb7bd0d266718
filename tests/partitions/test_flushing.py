"""What waits for the flushes of one partition, while its producers write on."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pykbroker.partitions.flushing import FlushThreads
from tests.storage.batches import append

if TYPE_CHECKING:
    import pytest

    from pykbroker_storage.log import Log
    from tests.partitions.boards import Board

FLUSHES_MAX = 20


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


async def test_waiting_for_a_flush_ends_although_the_partition_flushes_without_pause(
    board: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition = board.add("busy", flush_messages="1")
    threads = BusyProducer()
    monkeypatch.setattr(partition.flushing, "_threads", threads)
    append(partition.log, b"first")
    partition.flushing.begin()
    await partition.flushing.until_flushed(2)
    assert partition.log.recovery_point >= 2
    assert threads.flushes < 5
