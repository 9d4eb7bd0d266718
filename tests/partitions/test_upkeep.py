"""Periodic work continues although one partition fails."""

import asyncio
import errno
import logging
import os
import threading
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from pykbroker.partitions.partition import Partition
from pykbroker.partitions.recurring_errors import LOGGED_MAX, RecurringErrors
from pykbroker.partitions.upkeep import PARTITIONS_PER_SLICE, Upkeep
from pykbroker_storage.filesystem import LOCAL_DISK, FileSystem
from tests.partitions.local_partitions import LocalPartitions, damage
from tests.storage.batches import NOW, append

if TYPE_CHECKING:
    from pykbroker.partitions.partition_registry import Partitions

DAY_MS = 86_400_000
FULL = OSError(errno.ENOSPC, "No space left on device")


def upkeep_of(local: LocalPartitions, *rest: Any, **named: Any) -> Upkeep:
    return Upkeep(cast("Partitions", local), *rest, **named)


def add_filled(local: LocalPartitions, topic: str) -> Partition:
    """Three segments, of which two are sealed and a day old."""
    partition = local.add(topic, cleanup_policy="delete", retention_ms=str(DAY_MS))
    for _ in range(3):
        append(partition.log, b"x", timestamp=NOW - DAY_MS)
        partition.log.roll(NOW)
    append(partition.log, b"young", timestamp=NOW)
    partition.commit()
    return partition


async def test_a_corrupt_partition_does_not_block_retention_of_others(
    local: LocalPartitions, caplog: pytest.LogCaptureFixture
) -> None:
    damaged, sound = add_filled(local, "damaged"), add_filled(local, "sound")
    damage(damaged)
    local.clock.now += 1
    await upkeep_of(local).enforce_retention()
    assert (damaged.log.segment_count, sound.log.segment_count) == (4, 1)
    (record,) = [it for it in caplog.records if it.name.endswith("recurring_errors")]
    assert record.getMessage().startswith("damaged-0: retention failed")
    assert record.exc_info is None


async def test_a_failed_flush_does_not_block_flushes_of_others(local: LocalPartitions) -> None:
    broken, sound = add_filled(local, "broken"), add_filled(local, "sound")
    LOCAL_DISK.unlink(broken.log.segments()[0].path(".log"))
    await upkeep_of(local).flush()
    assert (broken.log.recovery_point, sound.log.recovery_point) == (0, 3)


async def test_a_large_producer_snapshot_is_written_after_the_roll(
    local: LocalPartitions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pykbroker_storage.log.PRODUCERS_SAVED_AT_ONCE_MAX", 2)
    few, many = local.add("few"), local.add("many")
    for partition, producers in ((few, 2), (many, 3)):
        for producer_id in range(producers):
            append(partition.log, b"x", producer_id=producer_id, base_sequence=0)
        partition.log.roll(NOW)
    paths = [local.path / f"few-0/{2:020d}.snapshot", local.path / f"many-0/{3:020d}.snapshot"]
    assert [it.exists() for it in paths] == [True, False]
    await upkeep_of(local).flush()
    assert paths[1].read_bytes() == many.log.producers.encode()
    assert many.log.deferred_snapshot is None


async def test_a_round_over_many_partitions_yields_to_requests(local: LocalPartitions) -> None:
    local.found = [local.add("trucks")] * (3 * PARTITIONS_PER_SLICE + 1)
    done, seen = 0, [0]

    def work(_: Partition) -> None:
        nonlocal done
        done += 1

    async def look() -> None:
        while True:
            seen.append(done)
            await asyncio.sleep(0)

    looking = asyncio.create_task(look())
    await upkeep_of(local).each("work", work)
    looking.cancel()
    steps = [after - before for before, after in pairwise([*seen, done])]
    assert max(steps) == PARTITIONS_PER_SLICE
    assert done == len(local.found)


@pytest.mark.parametrize("is_async", [True, False])
async def test_periodic_work_is_repeated_and_coroutines_are_awaited(
    local: LocalPartitions,
    caplog: pytest.LogCaptureFixture,
    is_async: bool,  # noqa: FBT001  # both kinds of work
) -> None:
    slept: list[float] = []
    rounds = []
    enough = asyncio.Event()

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) > 3:
            enough.set()
            await asyncio.Event().wait()

    async def work_that_waits() -> None:
        await asyncio.sleep(0)
        rounds.append(len(slept))

    local.clock.sleep = sleep  # type: ignore[method-assign]
    work = work_that_waits if is_async else lambda: rounds.append(len(slept))
    repeating = asyncio.create_task(upkeep_of(local).repeat("work", work, 5000))
    await enough.wait()
    repeating.cancel()
    assert (slept, rounds) == ([5.0] * 4, [1, 2, 3])
    assert caplog.messages == []


class WatchedDisk(FileSystem):
    """Records the threads that wait for it."""

    def __init__(self) -> None:
        self.waited: set[int] = set()

        def fdatasync(descriptor: int) -> None:
            self.waited.add(threading.get_ident())
            os.fdatasync(descriptor)

        self.fdatasync = fdatasync

    def sync_directory(self, path: str) -> None:
        self.waited.add(threading.get_ident())
        super().sync_directory(path)


async def test_a_checkpoint_is_written_off_the_event_loop(tmp_path: Path) -> None:
    disk = WatchedDisk()
    local = LocalPartitions(tmp_path, disk=disk)
    partition = add_filled(local, "a")
    disk.waited.clear()
    await upkeep_of(local).checkpoint()
    assert disk.waited
    assert threading.get_ident() not in disk.waited
    local.directory.abandon()
    assert (
        LocalPartitions(tmp_path).directory.high_watermark(("a", 0))
        == partition.high_watermark
        == 4
    )


async def test_a_failed_round_is_followed_by_the_next(
    local: LocalPartitions, caplog: pytest.LogCaptureFixture
) -> None:
    rounds: list[int] = []
    third = asyncio.Event()

    def work() -> None:
        rounds.append(len(rounds))
        if len(rounds) == 3:
            third.set()
        raise RuntimeError("a bug")

    repeating = asyncio.create_task(upkeep_of(local).repeat("work", work, 0))
    async with asyncio.timeout(10):
        await third.wait()
    repeating.cancel()
    await asyncio.gather(repeating, return_exceptions=True)
    (record,) = caplog.records
    assert record.exc_info, "a bug shows its trace"


def run_rounds(caught: RecurringErrors, *errors: Exception | None) -> None:
    for error in errors:
        with caught.caught("retention", "a-0"):
            if error is not None:
                raise error


@pytest.mark.parametrize(
    ("rounds", "logged"),
    [
        ([FULL] * 5, ["failed"]),
        ([None, None], []),
        ([FULL, None, None], ["failed", "succeeds again"]),
        ([FULL, None, FULL], ["failed", "succeeds again", "failed"]),
        ([FULL, RuntimeError(), RuntimeError(), FULL], ["failed"] * 3),
    ],
    ids=["lasting", "none", "over", "again", "another"],
)
def test_a_recurring_error_is_logged_when_it_begins_changes_and_ends(
    rounds: list[Exception | None], logged: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        run_rounds(RecurringErrors(), *rounds)
    assert len(caplog.messages) == len(logged)
    for message, words in zip(caplog.messages, logged, strict=True):
        assert message.startswith(f"a-0: retention {words}")


def test_remembered_errors_are_bounded(caplog: pytest.LogCaptureFixture) -> None:
    caught = RecurringErrors()
    for number in range(LOGGED_MAX + 1):
        with caught.caught("retention", f"a-{number}"):
            raise FULL
    run_rounds(caught, FULL)
    assert len(caplog.messages) == LOGGED_MAX + 2
