"""Which log is compacted next, and that nobody who works with it meanwhile is disturbed."""

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
from tests.partitions.boards import Board, damage
from tests.partitions.reading import read
from tests.storage.batches import NOW
from tests.storage.compaction_rounds import append_keyed, keyed_records

pytestmark = pytest.mark.slow

PATIENCE_SECONDS = 20


@pytest.fixture
def process() -> Iterator[CompactionProcess]:
    process = CompactionProcess()
    yield process
    process.end()


def fill(partition: Partition, records: int, keys: int = 5) -> None:
    """Writes as much, and seals it."""
    for number in range(records):
        append_keyed(partition.log, [(b"k%d" % (number % keys), b"%d" % number)])
    partition.log.roll(NOW)
    partition.commit()


def dirty_from(board: Board, topic: str) -> int:
    return board.directory.first_dirty_offset((topic, 0))


async def test_the_dirtiest_log_comes_first_and_a_clean_one_never(
    board: Board, process: CompactionProcess
) -> None:
    half, dirty, deleted = board.add("half"), board.add("dirty"), board.add("plain")
    deleted.log.configuration = log_configuration(board.settings.topic_defaults)
    cleaner = Cleaner(board)
    fill(half, 100, keys=100)
    assert await cleaner.clean_dirtiest(process)
    for partition in (half, dirty, deleted):
        fill(partition, 150, keys=10)
    assert await cleaner.clean_dirtiest(process)
    assert (dirty_from(board, "half"), dirty_from(board, "dirty")) == (100, 150)
    assert await cleaner.clean_dirtiest(process)
    assert dirty_from(board, "half") == 250
    assert not await cleaner.clean_dirtiest(process)
    assert len(keyed_records(dirty.log)) == 10
    assert len(keyed_records(deleted.log)) == 150


async def test_what_has_waited_too_long_is_compacted_however_little_it_is(
    board: Board, process: CompactionProcess
) -> None:
    partition = board.add("late", max_compaction_lag_ms="1000")
    cleaner = Cleaner(board)
    fill(partition, 100, keys=100)
    assert await cleaner.clean_dirtiest(process)
    fill(partition, 2)
    assert not await cleaner.clean_dirtiest(process)
    board.clock.now += 1001
    assert await cleaner.clean_dirtiest(process)
    assert dirty_from(board, "late") == 102


async def test_what_is_too_young_waits(board: Board, process: CompactionProcess) -> None:
    fill(board.add("young", min_compaction_lag_ms="1000"), 100)
    cleaner = Cleaner(board)
    assert not await cleaner.clean_dirtiest(process)
    board.clock.now += 1000
    assert await cleaner.clean_dirtiest(process)


async def test_a_log_is_flushed_as_far_as_it_is_compacted(
    board: Board, process: CompactionProcess
) -> None:
    partition = board.add("flushed")
    fill(partition, 100)
    assert partition.log.recovery_point == 0
    assert await Cleaner(board).clean_dirtiest(process)
    assert partition.log.recovery_point >= dirty_from(board, "flushed") == 100


@pytest.mark.parametrize("byte", [3, 20, 70])  # of its offset, its checksum, its records
async def test_a_damaged_log_is_told_of_once_and_left_alone(
    board: Board, process: CompactionProcess, caplog: pytest.LogCaptureFixture, byte: int
) -> None:
    partition = board.add("damaged")
    fill(partition, 100)
    path = board.path / "damaged-0" / f"{0:020d}.log"
    content = bytearray(path.read_bytes())
    second_batch = int.from_bytes(content[8:12], "big") + 12
    content[second_batch + byte] ^= 1
    path.write_bytes(content)
    cleaner = Cleaner(board)
    with caplog.at_level(logging.WARNING):
        assert not await cleaner.clean_dirtiest(process)
        assert not await cleaner.clean_dirtiest(process)
    (message,) = caplog.messages
    assert message.startswith("damaged-0: compaction failed (")
    assert path.read_bytes() == content
    assert list(path.parent.glob("*.cleaned")) == []


async def test_a_log_that_cannot_be_looked_at_keeps_no_other_from_being_compacted(
    board: Board, process: CompactionProcess, caplog: pytest.LogCaptureFixture
) -> None:
    unreadable, sound = board.add("unreadable", min_compaction_lag_ms="1"), board.add("sound")
    for partition in (unreadable, sound):
        fill(partition, 100)
    damage(unreadable)
    cleaner = Cleaner(board)
    assert await cleaner.clean_dirtiest(process)
    assert not await cleaner.clean_dirtiest(process)
    assert dirty_from(board, "sound") == 100
    (told,) = [it for it in caplog.messages if "not compacted until the next start" in it]
    assert told.startswith("unreadable-0")


class Stumbling(CompactionProcess):
    """Cannot cope with the log `odd-0`, for a reason that nobody has thought of."""

    def begin(self, job: Job) -> OffsetMapBuilt:
        if job.directory.endswith("odd-0"):
            raise ZeroDivisionError("nobody expected this")
        return super().begin(job)


async def test_a_log_that_fails_in_an_unforeseen_way_keeps_no_other_waiting(
    board: Board, caplog: pytest.LogCaptureFixture
) -> None:
    for name, records in (("odd", 300), ("ahead", 300), ("plain", 100)):
        fill(board.add(name), records)
    board.directory.set_first_dirty_offset(("ahead", 0), cast("int", "nonsense"))
    cleaner, process = Cleaner(board), Stumbling()
    with caplog.at_level(logging.WARNING):
        assert not await cleaner.clean_dirtiest(process)
        assert await cleaner.clean_dirtiest(process)
        assert not await cleaner.clean_dirtiest(process)
    process.end()
    assert dirty_from(board, "plain") == 100
    assert [it.split(":")[0] for it in caplog.messages] == ["ahead-0", "odd-0"]
    assert "(ZeroDivisionError('nobody expected this'))" in caplog.messages[1]


async def test_up_to_where_it_is_clean_survives_a_restart_in_kafkas_file(
    board: Board, process: CompactionProcess
) -> None:
    fill(board.add("a"), 100)
    await Cleaner(board).clean_dirtiest(process)
    assert (board.path / "cleaner-offset-checkpoint").read_text() == "0\n1\na 0 100\n"
    board.directory.close({("a", 0): 100}, now_ms=NOW)
    again = Board(board.path)
    assert dirty_from(again, "a") == 100
    again.directory.delete_log(("a", 0), now_ms=NOW)
    again.add("a")
    assert dirty_from(again, "a") == 0
    again.directory.abandon()


async def test_a_topic_deleted_in_the_middle_ends_its_round(
    board: Board, process: CompactionProcess
) -> None:
    fill(board.add("gone"), 5000)
    cleaning = asyncio.create_task(Cleaner(board).clean_dirtiest(process))
    await asyncio.sleep(0.01)
    board.directory.delete_log(("gone", 0), now_ms=NOW)
    board.found.clear()
    assert not await cleaning


async def test_a_topic_made_anew_is_dirty_whatever_was_compacted_of_its_namesake(
    board: Board,
) -> None:
    old = board.add("again")
    board.directory.delete_log(("again", 0), now_ms=NOW)
    board.found.clear()
    board.add("again")
    report = Report(
        first_dirty_offset=0,
        end_offset=100,
        is_table_full=False,
        bytes_before=1000,
        seconds=0.1,
        stats=CompactionStats(1000, 100, 100, 5, 0),
    )
    await Cleaner(board).note(old, report)
    assert dirty_from(board, "again") == 0


@pytest.mark.parametrize("after_seconds", [0, 0.005, 0.3])
async def test_cancelled_it_ends_soon_and_has_changed_nothing(
    board: Board, after_seconds: float
) -> None:
    board.settings = load_settings({"log.cleaner.io.max.bytes.per.second": "10000"})
    partition = board.add("large")
    fill(partition, 5000)
    before = keyed_records(partition.log)
    cleaning = asyncio.create_task(Cleaner(board).run())
    await asyncio.sleep(0)
    await asyncio.sleep(after_seconds)
    cleaning.cancel()
    async with asyncio.timeout(1):
        await asyncio.gather(cleaning, return_exceptions=True)
    assert keyed_records(partition.log) == before
    assert list((board.path / "large-0").glob("*.cleaned")) == []


class Busy(CompactionProcess):
    """Works until it may end."""

    def __init__(self) -> None:
        super().__init__()
        self.has_begun, self.may_end = threading.Event(), threading.Event()

    def begin(self, job: Job) -> OffsetMapBuilt:
        self.has_begun.set()
        self.may_end.wait()
        return super().begin(job)


async def test_a_long_compaction_takes_no_thread_in_which_others_flush(board: Board) -> None:
    fill(board.add("large"), 100)
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(1))
    process = Busy()
    cleaning = asyncio.create_task(Cleaner(board).clean_dirtiest(process))
    with ThreadPoolExecutor(1) as other:
        await loop.run_in_executor(other, process.has_begun.wait)
    flushing = asyncio.create_task(asyncio.to_thread(lambda: None))
    await asyncio.wait([flushing], timeout=PATIENCE_SECONDS)
    is_flushed = flushing.done()
    process.may_end.set()
    assert await cleaning
    process.end()
    assert is_flushed


async def test_a_process_that_dies_is_told_of_and_the_log_tried_again(
    board: Board, process: CompactionProcess, caplog: pytest.LogCaptureFixture
) -> None:
    board.settings = load_settings({"log.cleaner.io.max.bytes.per.second": "100000"})
    partition = board.add("unlucky")
    fill(partition, 1000)
    before = keyed_records(partition.log)
    cleaner = Cleaner(board)
    cleaning = asyncio.create_task(cleaner.clean_dirtiest(process))
    while process.pid is None:  # noqa: ASYNC110 (there is nothing to be told by)
        await asyncio.sleep(0)
    os.kill(process.pid, signal.SIGKILL)
    with caplog.at_level(logging.WARNING):
        assert not await cleaning
    (message,) = caplog.messages
    assert message.startswith("unlucky-0: compaction failed (")
    assert keyed_records(partition.log) == before
    assert list((board.path / "unlucky-0").glob("*.cleaned")) == []
    board.settings = load_settings()
    assert await cleaner.clean_dirtiest(process)
    assert len(keyed_records(partition.log)) == 5


class Lacking(CompactionProcess):
    """Fails once with an error of the system."""

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
async def test_compaction_is_retried_when_the_system_lacked_something(
    board: Board, number: int, *, is_retried: bool
) -> None:
    fill(board.add("a"), 100)
    cleaner, process = Cleaner(board), Lacking(number)
    assert not await cleaner.clean_dirtiest(process)
    assert await cleaner.clean_dirtiest(process) == is_retried
    process.end()


async def test_as_many_logs_at_a_time_as_there_are_threads_share_the_bounds(board: Board) -> None:
    board.settings = load_settings(
        {"log.cleaner.threads": "2", "log.cleaner.io.max.bytes.per.second": "200000"}
    )
    for name in ("one", "two", "three"):
        fill(board.add(name), 500)
    cleaner = Cleaner(board)
    running = asyncio.create_task(cleaner.run())
    async with asyncio.timeout(10):
        while len(cleaner.in_work) < 2:  # noqa: ASYNC110 (likewise)
            await asyncio.sleep(0.001)
        while not all(dirty_from(board, it) for it in ("one", "two", "three")):
            assert len(cleaner.in_work) <= 2
            await asyncio.sleep(0.001)
    assert cleaner.bounds().bytes_per_second == 100_000
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert not cleaner.lanes


async def test_how_much_was_gained_is_told(
    board: Board, process: CompactionProcess, caplog: pytest.LogCaptureFixture
) -> None:
    board.settings = load_settings({"log.cleaner.dedupe.buffer.size": "2400"})
    fill(board.add("told"), 400, keys=200)
    with caplog.at_level(logging.INFO):
        await Cleaner(board).clean_dirtiest(process)
    done, again = caplog.messages
    assert re.fullmatch(
        r"told-0: compacted offsets 0 to 7\d in \d\.\d s: "
        r"kept 400 of 400 records, (\d+) of \1 bytes",
        done,
    )
    assert "log.cleaner.dedupe.buffer.size" in again


async def test_a_consumer_beside_it_sees_offsets_grow_and_the_last_value_of_each_key(
    board: Board, process: CompactionProcess
) -> None:
    partition = board.add("read", segment_bytes="1048576")
    cleaner = Cleaner(board)
    for turn in range(4):
        fill(partition, 2000, keys=50)
        cleaning = asyncio.create_task(cleaner.clean_dirtiest(process))
        rounds = 0
        while not cleaning.done() or not rounds:
            table = await consumed(partition)
            assert table == {b"k%d" % key: b"%d" % (1950 + key) for key in range(50)}
            rounds += 1
        assert await cleaning
        assert dirty_from(board, "read") == (turn + 1) * 2000


async def consumed(partition: Partition) -> dict[bytes | None, bytes | None]:
    """The table that a consumer builds who reads from the beginning, a little at a time."""
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
