"""Transaction indexes list the aborted transactions after any change to the log."""

import logging
import random
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from pykbroker_storage.configuration import LogConfiguration
from pykbroker_storage.log import Log
from pykbroker_storage.transaction_index import (
    AbortedTransaction,
    TransactionIndex,
    decode_aborted,
    encode_aborted,
)
from tests.storage.batches import NOW, ONE_SEGMENT, append, open_log
from tests.storage.compaction_rounds import append_keyed, end_transaction
from tests.storage.disks import CountingDisk, PowerCutDisk, SmallDisk

SMALL = LogConfiguration(segment_bytes=2000, index_interval_bytes=300, file_delete_delay_ms=0)
PRODUCERS = range(1, 5)


def abort(log: Log, producer_id: int, *, records: int = 1) -> AbortedTransaction:
    """Appends one aborted transaction with one batch."""
    first_offset = write(log, producer_id, records=records)
    last_offset = end_transaction(log, producer_id, is_commit=False)
    return AbortedTransaction(
        producer_id=producer_id,
        first_offset=first_offset,
        last_offset=last_offset,
        last_stable_offset=last_offset + 1,
    )


def write(log: Log, producer_id: int, *, records: int = 1) -> int:
    pairs = [(b"key", b"value")] * records
    return append_keyed(log, pairs, producer_id=producer_id, base_sequence=0, is_transactional=True)


def random_history(log: Log, seed: int, steps: int) -> list[AbortedTransaction]:
    """Appends batches of several producers; returns the aborted transactions."""
    chance = random.Random(seed)
    began: dict[int, int] = {}
    aborted = []
    for _ in range(steps):
        producer_id = chance.choice(PRODUCERS)
        match chance.choice(("plain", "write", "write", "end")):
            case "plain":
                append(log, b"plain")
            case "write":
                offset = write(log, producer_id, records=chance.randint(1, 5))
                began.setdefault(producer_id, offset)
            case "end":
                is_commit = chance.random() < 0.4
                offset = end_transaction(log, producer_id, is_commit=is_commit)
                first_offset = began.pop(producer_id, None)
                if first_offset is not None and not is_commit:
                    stable = min(began.values(), default=offset + 1)
                    aborted.append(
                        AbortedTransaction(
                            producer_id=producer_id,
                            first_offset=first_offset,
                            last_offset=offset,
                            last_stable_offset=stable,
                        )
                    )
    return aborted


def assert_found(log: Log, aborted: Sequence[AbortedTransaction]) -> None:
    """Checks every range of the log for the aborted transactions that overlap it."""
    ends = range(0, log.log_end_offset + 1, 7)
    for start in ends:
        for end in range(start + 1, log.log_end_offset + 1, 7):
            expected = [it for it in aborted if it.last_offset >= start and it.first_offset < end]
            assert log.aborted_transactions(start, end) == expected


def indexes(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.glob("*.txnindex")}


# --- reads


@pytest.mark.parametrize("seed", range(4))
def test_aborted_transactions_that_overlap_a_read_are_returned(tmp_path: Path, seed: int) -> None:
    log = open_log(tmp_path, SMALL)
    aborted = random_history(log, seed, 150)
    assert len(aborted) > 10
    assert log.segment_count > 3
    assert_found(log, aborted)


def test_collect_stops_when_later_entries_begin_after_the_range() -> None:
    aborted = AbortedTransaction(producer_id=1, first_offset=2, last_offset=5, last_stable_offset=6)
    index = TransactionIndex(encode_aborted([aborted]))
    found: list[AbortedTransaction] = []
    assert index.collect(0, 6, found)
    assert not index.collect(0, 7, found)  # a transaction from 6 may end later
    assert found == [aborted, aborted]


# --- files


def test_an_aborted_transaction_is_saved_with_its_marker(tmp_path: Path) -> None:
    log = open_log(tmp_path, SMALL)
    aborted = abort(log, 1)
    assert decode_aborted((tmp_path / f"{0:020d}.txnindex").read_bytes()) == [aborted]


def test_committed_and_empty_transactions_are_not_indexed(tmp_path: Path) -> None:
    log = open_log(tmp_path, SMALL)
    write(log, 1)
    end_transaction(log, 1, is_commit=True)
    end_transaction(log, 2, is_commit=False)
    assert indexes(tmp_path) == {}
    assert log.aborted_transactions(0, 3) == []


def cleanly(log: Log) -> None:
    log.close()


def killed(log: Log) -> None:
    log.abandon()


def killed_without_the_indexes(log: Log) -> None:
    log.abandon()
    for path in Path(log.directory).glob("*.txnindex"):
        path.unlink()


def killed_with_torn_indexes(log: Log) -> None:
    log.abandon()
    for path in Path(log.directory).glob("*.txnindex"):
        path.write_bytes(path.read_bytes()[:-5])


def killed_with_indexes_too_long(log: Log) -> None:
    log.abandon()
    for path in Path(log.directory).glob("*.txnindex"):
        path.write_bytes(path.read_bytes() * 2)


@pytest.mark.parametrize(
    "ends",
    [
        cleanly,
        killed,
        killed_without_the_indexes,
        killed_with_torn_indexes,
        killed_with_indexes_too_long,
    ],
    ids=lambda it: str(it.__name__),
)
def test_aborted_transactions_survive_a_restart(
    tmp_path: Path, ends: Callable[[Log], None]
) -> None:
    log = open_log(tmp_path, SMALL)
    aborted = random_history(log, 5, 150)
    before = indexes(tmp_path)
    assert len(before) > 3
    ends(log)
    log = open_log(tmp_path, SMALL, was_clean=ends is cleanly)
    assert_found(log, aborted)
    assert indexes(tmp_path) == before


def test_recovery_does_not_rebuild_flushed_transaction_indexes(tmp_path: Path) -> None:
    log = open_log(tmp_path, SMALL)
    aborted = random_history(log, 6, 150)
    log.flush()
    recovery_point = log.recovery_point
    first = min(tmp_path.glob("*.txnindex"))
    modified = first.stat().st_mtime_ns
    log.abandon()
    log = open_log(tmp_path, SMALL, recovery_point=recovery_point)
    assert_found(log, aborted)
    assert first.stat().st_mtime_ns == modified


def test_a_truncated_tail_removes_its_aborted_transactions(tmp_path: Path) -> None:
    log = open_log(tmp_path, SMALL)
    kept = abort(log, 1)
    abort(log, 2)
    log.abandon()
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(path.read_bytes()[:-1])
    log = open_log(tmp_path, SMALL)
    assert log.aborted_transactions(0, 10) == [kept]
    assert log.producers.first_undecided_offset == 2
    assert decode_aborted((tmp_path / f"{0:020d}.txnindex").read_bytes()) == [kept]


@pytest.mark.parametrize("seed", range(3))
def test_after_a_power_cut_the_index_agrees_with_the_log(tmp_path: Path, seed: int) -> None:
    disk = PowerCutDisk()
    log = open_log(tmp_path / "log", SMALL, disk=disk)
    aborted = random_history(log, seed, 80)
    log.flush()
    recovery_point = log.recovery_point
    for _ in range(40):
        abort(log, 9)
    log.abandon()
    disk.cut_power(random.Random(seed))
    log = open_log(tmp_path / "log", SMALL, recovery_point=recovery_point)
    assert log.log_end_offset >= recovery_point
    found = log.aborted_transactions(0, log.log_end_offset)
    assert found[: len(aborted)] == aborted
    log.abandon()
    shutil.copytree(tmp_path / "log", tmp_path / "rebuilt")
    for path in (*tmp_path.glob("rebuilt/*.txnindex"), *tmp_path.glob("rebuilt/*.snapshot")):
        path.unlink()
    assert_found(open_log(tmp_path / "rebuilt", SMALL), found)


@pytest.mark.parametrize("seed", range(5))
def test_transaction_indexes_flushed_with_each_append_survive_a_power_cut(
    tmp_path: Path, seed: int
) -> None:
    disk = PowerCutDisk()
    log = open_log(tmp_path, SMALL, disk=disk)
    aborted = []
    for _ in range(10):
        aborted.append(abort(log, 1))
        log.flush()
    log.roll(NOW)
    recovery_point = log.recovery_point
    assert recovery_point == log.log_end_offset
    log.abandon()
    disk.cut_power(random.Random(seed))
    log = open_log(tmp_path, SMALL, recovery_point=recovery_point)
    assert_found(log, aborted)


def test_merge_does_not_keep_an_outdated_transaction_index(
    tmp_path: Path,
) -> None:
    log = open_log(tmp_path, LogConfiguration())
    first = abort(log, 1)
    log.close()
    log = open_log(tmp_path, LogConfiguration(), was_clean=True)
    view = log.read_view(0)
    assert view.use(lambda it: it.aborted_transactions(0, 100)) == [first]
    second = abort(log, 2)
    segment = log.segments()[-1]
    log.roll(NOW)
    segment.drop_indexes()
    assert log.merge(view)
    assert log.aborted_transactions(0, 100) == [first, second]


def test_truncation_removes_transactions_that_ended_above_the_offset(tmp_path: Path) -> None:
    for offset in (0, 1, 40, 41, 42, 77):
        log = open_log(tmp_path / str(offset), SMALL)
        aborted = [abort(log, 1) for _ in range(40)]
        log.truncate_to(offset, NOW)
        kept = [it for it in aborted if it.last_offset < offset]
        assert_found(log, kept)
        log.abandon()
        log = open_log(tmp_path / str(offset), SMALL)
        assert_found(log, kept)
        following = abort(log, 1)
        (found,) = log.aborted_transactions(log.log_end_offset - 1, log.log_end_offset)
        assert found.last_offset == following.last_offset


def test_the_transaction_index_is_deleted_with_its_segment(tmp_path: Path) -> None:
    log = open_log(tmp_path, SMALL)
    for _ in range(40):
        abort(log, 1)
    second = log.segments()[1].base_offset
    log.advance_log_start(second, NOW)
    assert f"{0:020d}.txnindex.deleted" in {path.name for path in tmp_path.iterdir()}
    assert log.aborted_transactions(second, log.log_end_offset)[0].last_offset >= second


def test_a_corrupt_transaction_index_is_rebuilt_on_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = open_log(tmp_path, SMALL)
    aborted = random_history(log, 7, 150)
    log.close()
    (first, good), *_ = sorted(indexes(tmp_path).items())
    (tmp_path / first).write_bytes(b"\1" + good[1:])
    log = open_log(tmp_path, SMALL, was_clean=True)
    with caplog.at_level(logging.WARNING):
        assert_found(log, aborted)
    assert "rebuilding .txnindex files" in caplog.text
    assert indexes(tmp_path)[first] == good


def test_an_index_entry_that_failed_on_a_full_disk_is_written_by_the_roll(tmp_path: Path) -> None:
    disk = SmallDisk(10_000)
    log = open_log(tmp_path, SMALL, disk=disk)
    write(log, 1)
    disk.room_bytes = 78 + 3  # the marker and part of the entry
    last_offset = end_transaction(log, 1, is_commit=False)
    disk.room_bytes = 10_000
    (aborted,) = log.aborted_transactions(0, 2)
    assert (aborted.first_offset, aborted.last_offset) == (0, last_offset)
    log.close()
    log = open_log(tmp_path, SMALL, was_clean=True)
    assert log.aborted_transactions(0, 2) == [aborted]


def test_a_log_without_transactions_opens_no_index(tmp_path: Path) -> None:
    log = open_log(tmp_path, replace(SMALL, segment_bytes=500))
    for _ in range(50):
        append(log, b"plain")
    assert log.aborted_transactions(0, 50) == []
    assert indexes(tmp_path) == {}


# --- corrupt indexes


def flip_in_the_middle(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def cut_an_entry(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-34])


def repeat_an_entry(path: Path) -> None:
    path.write_bytes(path.read_bytes() + path.read_bytes()[-34:])


def empty(path: Path) -> None:
    path.write_bytes(b"")


DAMAGES = [Path.unlink, empty, flip_in_the_middle, cut_an_entry, repeat_an_entry]


@pytest.mark.parametrize("which", [0, 1, -1])
@pytest.mark.parametrize("corruption", DAMAGES, ids=lambda it: str(it.__name__))
def test_a_corrupt_transaction_index_is_rebuilt_after_a_clean_shutdown(
    tmp_path: Path,
    corruption: Callable[[Path], None],
    which: int,
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = open_log(tmp_path, SMALL)
    aborted = random_history(log, 5, 150)
    log.close()
    before = indexes(tmp_path)
    corruption(sorted(tmp_path.glob("*.txnindex"))[which])
    for _ in range(2):
        log = open_log(tmp_path, SMALL, was_clean=True)
        assert_found(log, aborted)
        log.close()
        assert indexes(tmp_path) == before
    (logged,) = caplog.messages
    assert "rebuilding .txnindex files" in logged


@pytest.mark.parametrize(
    "corruption", [*DAMAGES, flip_in_the_middle], ids=lambda it: str(it.__name__)
)
def test_corrupt_checksums_do_not_make_an_index_wrong(
    tmp_path: Path, corruption: Callable[[Path], None]
) -> None:
    log = open_log(tmp_path, SMALL)
    aborted = random_history(log, 5, 150)
    log.close()
    before = indexes(tmp_path)
    corruption(tmp_path / "aborted-index-checkpoint")
    log = open_log(tmp_path, SMALL, was_clean=True)
    assert_found(log, aborted)
    abort(log, 9)
    log.close()
    assert before.items() - indexes(tmp_path).items() <= {max(before.items())}
    log = open_log(tmp_path, SMALL, was_clean=True)
    assert len(log.aborted_transactions(0, log.log_end_offset)) == len(aborted) + 1


def test_a_lost_index_is_rebuilt_before_another_transaction_is_added(
    tmp_path: Path,
) -> None:
    """Otherwise the new entry would make an incomplete index look valid."""
    log = open_log(tmp_path, ONE_SEGMENT)
    aborted = [abort(log, 1) for _ in range(5)]
    log.close()
    (path,) = tmp_path.glob("*.txnindex")
    path.unlink()
    log = open_log(tmp_path, ONE_SEGMENT, was_clean=True)
    aborted.append(abort(log, 1))
    assert_found(log, aborted)
    log.close()
    assert decode_aborted(path.read_bytes()) == aborted


def test_indexes_without_checksums_are_trusted_and_get_checksums(tmp_path: Path) -> None:
    """As in a directory of Apache Kafka."""
    log = open_log(tmp_path, SMALL)
    aborted = random_history(log, 5, 150)
    log.close()
    (tmp_path / "aborted-index-checkpoint").unlink()
    disk = CountingDisk()
    log = open_log(tmp_path, SMALL, was_clean=True, disk=disk)
    assert disk.calls["map"] == 0
    assert_found(log, aborted)
    abort(log, 9)
    aborted = list(log.aborted_transactions(0, log.log_end_offset))
    log.close()
    min(tmp_path.glob("*.txnindex")).unlink()
    assert_found(open_log(tmp_path, SMALL, was_clean=True), aborted)


def test_entries_added_by_another_broker_are_rebuilt(tmp_path: Path) -> None:
    """Apache Kafka changes indexes and does not update the checksums."""
    log = open_log(tmp_path, SMALL)
    random_history(log, 5, 60)
    log.close()
    checksums = (tmp_path / "aborted-index-checkpoint").read_bytes()
    log = open_log(tmp_path, SMALL, was_clean=True)
    for _ in range(20):
        abort(log, 9)
    aborted = list(log.aborted_transactions(0, log.log_end_offset))
    log.close()
    before = indexes(tmp_path)
    (tmp_path / "aborted-index-checkpoint").write_bytes(checksums)
    assert_found(open_log(tmp_path, SMALL, was_clean=True), aborted)
    assert indexes(tmp_path) == before


def test_a_log_without_aborted_transactions_has_no_checksum_file(tmp_path: Path) -> None:
    log = open_log(tmp_path, SMALL)
    for _ in range(30):
        append(log, b"plain" * 10)
    assert log.aborted_transactions(0, 30) == []
    log.close()
    assert not (tmp_path / "aborted-index-checkpoint").exists()
