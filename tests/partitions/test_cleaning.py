"""The order in which logs are compacted, and readers and writers during compaction."""

import asyncio
import errno
import logging
import os
import re
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import cast

import pytest

from pykbroker.partitions.cleaning import Cleaner, Report
from pykbroker.partitions.partition import Partition
from pykbroker.partitions.partition_registry import log_configuration
from pykbroker.partitions.reading import Fetched
from pykbroker.settings import load_settings
from pykbroker_protocol.records.batch import iterate_batches
from pykbroker_storage.compaction import CompactionProcess, CompactionStats, Job, OffsetMapBuilt
from tests.partitions.local_partitions import LocalPartitions, damage
from tests.partitions.reading import read
from tests.storage.batches import NOW
from tests.storage.compaction_rounds import append_keyed, keyed_records

pytestmark = pytest.mark.slow

TIMEOUT_SECONDS = 20


@pytest.fixture
def process() -> Iterator[CompactionProcess]:
    process = CompactionProcess()
    yield process
    process.end()


def fill(partition: Partition, records: int, keys: int = 5) -> None:
    """Appends so many records and seals the segment."""
    for number in range(records):
        append_keyed(partition.log, [(b"k%d" % (number % keys), b"%d" % number)])
    partition.log.roll(NOW)
    partition.commit()


def dirty_from(local: LocalPartitions, topic: str) -> int:
    return local.directory.first_dirty_offset((topic, 0))


async def test_the_log_with_the_highest_dirty_ratio_is_compacted_first_and_a_clean_log_never(
    local: LocalPartitions, process: CompactionProcess
) -> None:
    half, dirty, deleted = local.add("half"), local.add("dirty"), local.add("plain")
    deleted.log.configuration = log_configuration(local.settings.topic_defaults)
    cleaner = Cleaner(local)
    fill(half, 100, keys=100)
    assert await cleaner.clean_dirtiest(process)
    for partition in (half, dirty, deleted):
        fill(partition, 150, keys=10)
    assert await cleaner.clean_dirtiest(process)
    assert (dirty_from(local, "half"), dirty_from(local, "dirty")) == (100, 150)
    assert await cleaner.clean_dirtiest(process)
    assert dirty_from(local, "half") == 250
    assert not await cleaner.clean_dirtiest(process)
    assert len(keyed_records(dirty.log)) == 10
    assert len(keyed_records(deleted.log)) == 150


async def test_records_older_than_max_compaction_lag_are_compacted_at_any_dirty_ratio(
    local: LocalPartitions, process: CompactionProcess
) -> None:
    partition = local.add("late", max_compaction_lag_ms="1000")
    cleaner = Cleaner(local)
    fill(partition, 100, keys=100)
    assert await cleaner.clean_dirtiest(process)
    fill(partition, 2)
    assert not await cleaner.clean_dirtiest(process)
    local.clock.now += 1001
    assert await cleaner.clean_dirtiest(process)
    assert dirty_from(local, "late") == 102


async def test_records_younger_than_min_compaction_lag_are_not_compacted(
    local: LocalPartitions, process: CompactionProcess
) -> None:
    fill(local.add("young", min_compaction_lag_ms="1000"), 100)
    cleaner = Cleaner(local)
    assert not await cleaner.clean_dirtiest(process)
    local.clock.now += 1000
    assert await cleaner.clean_dirtiest(process)


async def test_a_log_is_flushed_up_to_the_compacted_offset(
    local: LocalPartitions, process: CompactionProcess
) -> None:
    partition = local.add("flushed")
    fill(partition, 100)
    assert partition.log.recovery_point == 0
    assert await Cleaner(local).clean_dirtiest(process)
    assert partition.log.recovery_point >= dirty_from(local, "flushed") == 100


@pytest.mark.parametrize("byte", [3, 20, 70])  # in the offset, the checksum, the records
async def test_a_corrupt_log_is_logged_once_and_not_compacted_again(
    local: LocalPartitions, process: CompactionProcess, caplog: pytest.LogCaptureFixture, byte: int
) -> None:
    partition = local.add("damaged")
    fill(partition, 100)
    path = local.path / "damaged-0" / f"{0:020d}.log"
    content = bytearray(path.read_bytes())
    second_batch = int.from_bytes(content[8:12], "big") + 12
    content[second_batch + byte] ^= 1
    path.write_bytes(content)
    cleaner = Cleaner(local)
    with caplog.at_level(logging.WARNING):
        assert not await cleaner.clean_dirtiest(process)
        assert not await cleaner.clean_dirtiest(process)
    (message,) = caplog.messages
    assert message.startswith("damaged-0: compaction failed (")
    assert path.read_bytes() == content
    assert list(path.parent.glob("*.cleaned")) == []


async def test_an_unreadable_log_does_not_block_compaction_of_others(
    local: LocalPartitions, process: CompactionProcess, caplog: pytest.LogCaptureFixture
) -> None:
    unreadable, sound = local.add("unreadable", min_compaction_lag_ms="1"), local.add("sound")
    for partition in (unreadable, sound):
        fill(partition, 100)
    damage(unreadable)
    cleaner = Cleaner(local)
    assert await cleaner.clean_dirtiest(process)
    assert not await cleaner.clean_dirtiest(process)
    assert dirty_from(local, "sound") == 100
    (line,) = [it for it in caplog.messages if "not compacted until the next start" in it]
    assert line.startswith("unreadable-0")


class Stumbling(CompactionProcess):
    """Raises an unexpected error for the log `odd-0`."""

    def begin(self, job: Job) -> OffsetMapBuilt:
        if job.directory.endswith("odd-0"):
            raise ZeroDivisionError("unexpected")
        return super().begin(job)


async def test_an_internal_error_in_one_log_does_not_block_compaction_of_others(
    local: LocalPartitions, caplog: pytest.LogCaptureFixture
) -> None:
    for name, records in (("odd", 300), ("ahead", 300), ("plain", 100)):
        fill(local.add(name), records)
    local.directory.set_first_dirty_offset(("ahead", 0), cast("int", "nonsense"))
    cleaner, process = Cleaner(local), Stumbling()
    with caplog.at_level(logging.WARNING):
        assert not await cleaner.clean_dirtiest(process)
        assert await cleaner.clean_dirtiest(process)
        assert not await cleaner.clean_dirtiest(process)
    process.end()
    assert dirty_from(local, "plain") == 100
    assert [it.split(":")[0] for it in caplog.messages] == ["ahead-0", "odd-0"]
    assert "(ZeroDivisionError('unexpected'))" in caplog.messages[1]


async def test_the_cleaner_checkpoint_survives_a_restart(
    local: LocalPartitions, process: CompactionProcess
) -> None:
    fill(local.add("a"), 100)
    await Cleaner(local).clean_dirtiest(process)
    assert (local.path / "cleaner-offset-checkpoint").read_text() == "0\n1\na 0 100\n"
    local.directory.close({("a", 0): 100}, now_ms=NOW)
    again = LocalPartitions(local.path)
    assert dirty_from(again, "a") == 100
    again.directory.delete_log(("a", 0), now_ms=NOW)
    again.add("a")
    assert dirty_from(again, "a") == 0
    again.directory.abandon()


async def test_deleting_a_topic_ends_its_compaction(
    local: LocalPartitions, process: CompactionProcess
) -> None:
    fill(local.add("gone"), 5000)
    cleaning = asyncio.create_task(Cleaner(local).clean_dirtiest(process))
    await asyncio.sleep(0.01)
    local.directory.delete_log(("gone", 0), now_ms=NOW)
    local.found.clear()
    assert not await cleaning


async def test_compaction_of_a_recreated_topic_begins_at_its_start(
    local: LocalPartitions,
) -> None:
    old = local.add("again")
    local.directory.delete_log(("again", 0), now_ms=NOW)
    local.found.clear()
    local.add("again")
    report = Report(
        first_dirty_offset=0,
        end_offset=100,
        is_table_full=False,
        bytes_before=1000,
        seconds=0.1,
        stats=CompactionStats(1000, 100, 100, 5, 0),
    )
    await Cleaner(local).note(old, report)
    assert dirty_from(local, "again") == 0


@pytest.mark.parametrize("after_seconds", [0, 0.005, 0.3])
async def test_a_cancelled_compaction_ends_soon_and_changes_nothing(
    local: LocalPartitions, after_seconds: float
) -> None:
    local.settings = load_settings({"log.cleaner.io.max.bytes.per.second": "10000"})
    partition = local.add("large")
    fill(partition, 5000)
    before = keyed_records(partition.log)
    cleaning = asyncio.create_task(Cleaner(local).run())
    await asyncio.sleep(0)
    await asyncio.sleep(after_seconds)
    cleaning.cancel()
    async with asyncio.timeout(1):
        await asyncio.gather(cleaning, return_exceptions=True)
    assert keyed_records(partition.log) == before
    assert list((local.path / "large-0").glob("*.cleaned")) == []


class Busy(CompactionProcess):
    """Works until the test ends it."""

    def __init__(self) -> None:
        super().__init__()
        self.has_begun, self.may_end = threading.Event(), threading.Event()

    def begin(self, job: Job) -> OffsetMapBuilt:
        self.has_begun.set()
        self.may_end.wait()
        return super().begin(job)


async def test_a_long_compaction_uses_no_flush_thread(local: LocalPartitions) -> None:
    fill(local.add("large"), 100)
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(1))
    process = Busy()
    cleaning = asyncio.create_task(Cleaner(local).clean_dirtiest(process))
    with ThreadPoolExecutor(1) as other:
        await loop.run_in_executor(other, process.has_begun.wait)
    flushing = asyncio.create_task(asyncio.to_thread(lambda: None))
    await asyncio.wait([flushing], timeout=TIMEOUT_SECONDS)
    is_flushed = flushing.done()
    process.may_end.set()
    assert await cleaning
    process.end()
    assert is_flushed


async def test_a_dead_compaction_process_is_logged_and_the_log_is_retried(
    local: LocalPartitions, process: CompactionProcess, caplog: pytest.LogCaptureFixture
) -> None:
    local.settings = load_settings({"log.cleaner.io.max.bytes.per.second": "100000"})
    partition = local.add("unlucky")
    fill(partition, 1000)
    before = keyed_records(partition.log)
    cleaner = Cleaner(local)
    cleaning = asyncio.create_task(cleaner.clean_dirtiest(process))
    while process.pid is None:  # noqa: ASYNC110 (no event reports it)
        await asyncio.sleep(0)
    os.kill(process.pid, signal.SIGKILL)
    with caplog.at_level(logging.WARNING):
        assert not await cleaning
    (message,) = caplog.messages
    assert message.startswith("unlucky-0: compaction failed (")
    assert keyed_records(partition.log) == before
    assert list((local.path / "unlucky-0").glob("*.cleaned")) == []
    local.settings = load_settings()
    assert await cleaner.clean_dirtiest(process)
    assert len(keyed_records(partition.log)) == 5


class Lacking(CompactionProcess):
    """Fails once with an error of the operating system."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.failures = [number]

    def begin(self, job: Job) -> OffsetMapBuilt:
        if self.failures:
            raise OSError(self.failures.pop(), "the system refuses")
        return super().begin(job)


@pytest.mark.parametrize(
    ("number", "is_retried"),
    [
        (errno.EMFILE, True),
        (errno.ENFILE, True),
        (errno.ENOMEM, True),
        (errno.ENOSPC, True),
        (errno.EIO, False),
        (errno.EROFS, False),
    ],
)
async def test_compaction_is_retried_after_a_transient_error(
    local: LocalPartitions, number: int, *, is_retried: bool
) -> None:
    fill(local.add("a"), 100)
    cleaner, process = Cleaner(local), Lacking(number)
    assert not await cleaner.clean_dirtiest(process)
    assert await cleaner.clean_dirtiest(process) == is_retried
    process.end()


async def test_concurrent_compactions_share_the_limits(local: LocalPartitions) -> None:
    local.settings = load_settings(
        {"log.cleaner.threads": "2", "log.cleaner.io.max.bytes.per.second": "200000"}
    )
    for name in ("one", "two", "three"):
        fill(local.add(name), 500)
    cleaner = Cleaner(local)
    running = asyncio.create_task(cleaner.run())
    async with asyncio.timeout(10):
        while len(cleaner.in_work) < 2:  # noqa: ASYNC110 (likewise)
            await asyncio.sleep(0.001)
        while not all(dirty_from(local, it) for it in ("one", "two", "three")):
            assert len(cleaner.in_work) <= 2
            await asyncio.sleep(0.001)
    assert cleaner.bounds().bytes_per_second == 100_000
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert not cleaner.lanes


async def test_the_result_of_a_compaction_is_logged(
    local: LocalPartitions, process: CompactionProcess, caplog: pytest.LogCaptureFixture
) -> None:
    local.settings = load_settings({"log.cleaner.dedupe.buffer.size": "2400"})
    fill(local.add("reported"), 400, keys=200)
    with caplog.at_level(logging.INFO):
        await Cleaner(local).clean_dirtiest(process)
    done, again = caplog.messages
    assert re.fullmatch(
        r"reported-0: compacted offsets 0 to 7\d in \d\.\d s: "
        r"kept 400 of 400 records, (\d+) of \1 bytes",
        done,
    )
    assert "log.cleaner.dedupe.buffer.size" in again


async def test_a_consumer_during_compaction_sees_growing_offsets_and_the_last_value_of_each_key(
    local: LocalPartitions, process: CompactionProcess
) -> None:
    partition = local.add("read", segment_bytes="1048576")
    cleaner = Cleaner(local)
    for turn in range(4):
        fill(partition, 2000, keys=50)
        cleaning = asyncio.create_task(cleaner.clean_dirtiest(process))
        rounds = 0
        while not cleaning.done() or not rounds:
            table = await consumed(partition)
            assert table == {b"k%d" % key: b"%d" % (1950 + key) for key in range(50)}
            rounds += 1
        assert await cleaning
        assert dirty_from(local, "read") == (turn + 1) * 2000


async def consumed(partition: Partition) -> dict[bytes | None, bytes | None]:
    """The table that a consumer builds from the start of the log, in small fetches."""
    table: dict[bytes | None, bytes | None] = {}
    offset = 0
    while offset < partition.high_watermark:
        found = read(partition, offset, bytes_max=20_000)
        assert isinstance(found, Fetched)
        await asyncio.sleep(0)
        for batch in iterate_batches(found.records):
            for record in batch.records():
                assert batch.next_offset > offset
                table[record.key] = record.value
            offset = batch.next_offset
    return table
