"""After a crash at any moment the log has all records up to its last whole batch."""

import logging
import os
import random
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykbroker_storage.configuration import CleanupPolicy, LogConfiguration
from pykbroker_storage.log import Log
from pykbroker_storage.read_view import ReadView
from tests.storage.batches import NOW, ONE_SEGMENT, SMALL, append, open_log, records_from
from tests.storage.compaction_rounds import COMPACTED, append_keyed, compact
from tests.storage.disks import CountingDisk, PowerCutDisk, UnreadableMaps

pytestmark = pytest.mark.slow

Records = list[tuple[int, bytes | None]]


def written(log: Log, count: int, size: int = 40) -> Records:
    """Appends `count` different batches of one record each."""
    for number in range(count):
        append(log, b"%05d" % number + bytes(size), leader_epoch=number // 5)
    return records_from(log, log.log_start_offset)


def test_appended_records_survive_a_kill(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    records = written(log, 40)
    epochs = log.leader_epochs.entries()
    log.abandon()
    log = open_log(tmp_path)
    assert records_from(log, 0) == records
    assert log.leader_epochs.entries() == epochs
    assert append(log, b"next", leader_epoch=9).first_offset == 40


def test_a_log_cut_at_any_byte_keeps_its_whole_batches(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log", ONE_SEGMENT)
    records = written(log, 6, size=5)
    log.abandon()
    content = (tmp_path / "log" / f"{0:020d}.log").read_bytes()
    batch_bytes = len(content) // 6
    for size in range(len(content) + 1):
        (tmp_path / "log" / f"{0:020d}.log").write_bytes(content[:size])
        log = open_log(tmp_path / "log", ONE_SEGMENT)
        assert records_from(log, 0) == records[: size // batch_bytes]
        assert log.size_bytes == size // batch_bytes * batch_bytes
        log.abandon()


def test_a_torn_tail_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = open_log(tmp_path, ONE_SEGMENT)
    written(log, 3)
    log.abandon()
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(path.read_bytes()[:-1])
    with caplog.at_level(logging.WARNING):
        open_log(tmp_path, ONE_SEGMENT)
    assert "ends at offset 2" in caplog.text


NOT_COVERED_BY_THE_CHECKSUM = {*range(8), *range(12, 16)}  # base offset and leader epoch


@settings(max_examples=80)
@given(bit=st.integers(0, 10**6))
def test_a_batch_with_a_flipped_bit_is_never_returned(
    tmp_path_factory: pytest.TempPathFactory, bit: int
) -> None:
    directory = tmp_path_factory.mktemp("log")
    log = open_log(directory)
    records = written(log, 20)
    log.abandon()
    batch_bytes = log.size_bytes // 20
    damaged_byte = flip(directory, bit)
    log = open_log(directory)
    found = records_from(log, 0)
    if damaged_byte % batch_bytes not in NOT_COVERED_BY_THE_CHECKSUM:
        assert found == [it for it in records if it in found]
        assert len(found) < 20
    else:
        values = [value for _, value in found]
        assert values == [value for _, value in records if value in values]
    log.abandon()


@pytest.mark.parametrize("wrong_offset", [0, 4, 6, 7, 2**32, 2**62])
def test_a_batch_with_a_wrong_offset_is_never_returned(tmp_path: Path, wrong_offset: int) -> None:
    log = open_log(tmp_path, ONE_SEGMENT)
    records = written(log, 10)
    batch_bytes = log.size_bytes // 10
    log.abandon()
    path = tmp_path / f"{0:020d}.log"
    content = bytearray(path.read_bytes())
    content[5 * batch_bytes : 5 * batch_bytes + 8] = wrong_offset.to_bytes(8, "big")
    path.write_bytes(content)
    log = open_log(tmp_path, ONE_SEGMENT)
    assert records_from(log, 0) == records[:5]
    assert log.leader_epochs.entries() == [(0, 0)]


def flip(directory: Path, bit: int) -> int:
    """Flips a bit of a segment; returns the position of the changed byte."""
    files = sorted(directory.glob("*.log"))
    path = files[bit % len(files)]
    content = bytearray(path.read_bytes())
    at = bit % (len(content) * 8)
    content[at // 8] ^= 1 << at % 8
    path.write_bytes(content)
    return at // 8


@settings(max_examples=40)
@given(seed=st.integers(0, 2**32), flush_every=st.integers(1, 10))
def test_flushed_records_survive_a_power_cut(
    tmp_path_factory: pytest.TempPathFactory, seed: int, flush_every: int
) -> None:
    directory = tmp_path_factory.mktemp("log")
    disk = PowerCutDisk()
    configuration = LogConfiguration(segment_bytes=20_000, index_interval_bytes=4096)
    log = open_log(directory, configuration, disk=disk)
    for number in range(30):
        append(log, b"%05d" % number + bytes(1500))
        if number % flush_every == 0:
            log.flush()
    records = records_from(log, 0)
    durable = log.recovery_point
    log.abandon()
    disk.cut_power(random.Random(seed))
    log = open_log(directory, configuration, recovery_point=durable)
    found = records_from(log, 0)
    assert found[:durable] == records[:durable]
    assert found == [it for it in records if it in found]  # gaps are allowed
    log.abandon()


@pytest.mark.parametrize("policy", CleanupPolicy)
def test_a_gap_between_segments_is_kept_and_logged_unless_compacted(
    tmp_path: Path, policy: CleanupPolicy, caplog: pytest.LogCaptureFixture
) -> None:
    log = open_log(tmp_path)
    records = written(log, 20)
    batch_bytes = log.size_bytes // 20
    log.abandon()
    lost = []
    for path in sorted(tmp_path.glob("*.log"))[:2]:
        path.write_bytes(path.read_bytes()[:-batch_bytes])
        lost.append(int(path.stem) + path.stat().st_size // batch_bytes)
    with caplog.at_level(logging.WARNING):
        log = open_log(tmp_path, replace(SMALL, cleanup_policy=frozenset({policy})))
    assert records_from(log, 0) == [it for it in records if it[0] not in lost]
    assert append(log, b"next").first_offset == 20
    logged = [it for it in caplog.messages if "offsets missing at the ends of segments: 2," in it]
    assert len(logged) == (policy is CleanupPolicy.DELETE)


def test_overlapping_segments_are_kept_and_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = open_log(tmp_path)
    records = written(log, 20)
    batch_bytes = log.size_bytes // 20
    log.abandon()
    first = min(tmp_path.glob("*.log"))
    content = bytearray(first.read_bytes())
    at = len(content) - batch_bytes
    content[at : at + 8] = (50).to_bytes(8, "big")
    first.write_bytes(content)
    begins = len(content) // batch_bytes
    with caplog.at_level(logging.WARNING):
        log = open_log(tmp_path)
    assert records_from(log, begins) == records[begins:]
    (logged,) = caplog.messages
    assert f"segment reaches offset 50, but the next one starts at {begins};" in logged


@pytest.mark.parametrize("recovery_point", [0, 20, 60])
def test_a_compacted_log_is_kept_under_any_later_policy(
    tmp_path: Path, recovery_point: int
) -> None:
    log = open_log(tmp_path, COMPACTED)
    for number in range(60):
        append_keyed(log, [(b"k%d" % (number % 20 or number), b"v")])
    compact(log, now_ms=NOW)
    records = records_from(log, 0)
    assert len(records) < 50
    log.abandon()
    log = open_log(tmp_path, SMALL, recovery_point=recovery_point)
    assert records_from(log, 0) == records
    assert log.log_end_offset == 60


REPLICATED = replace(SMALL, ends_at_gaps=True)


@pytest.mark.parametrize("loses_all", [False, True], ids=["end of a segment", "whole segment"])
def test_a_replicated_log_ends_at_its_first_gap(
    tmp_path: Path, *, loses_all: bool, caplog: pytest.LogCaptureFixture
) -> None:
    log = open_log(tmp_path, REPLICATED)
    records = written(log, 40)
    log.abandon()
    second = sorted(tmp_path.glob("*.log"))[1]
    base_offset = int(second.stem)
    content = second.read_bytes()
    second.write_bytes(b"" if loses_all else content[:-1])
    with caplog.at_level(logging.WARNING):
        log = open_log(tmp_path, REPLICATED)
    assert "the leader has their records" in caplog.text
    end = log.log_end_offset
    assert end == base_offset if loses_all else base_offset < end < 39
    assert records_from(log, 0) == records[:end]
    assert append(log, b"next", leader_epoch=9).first_offset == end


def test_a_compacted_replicated_log_ends_at_a_corrupt_batch(tmp_path: Path) -> None:
    """A gap can come from compaction, a corrupt batch cannot."""
    configuration = replace(REPLICATED, cleanup_policy=frozenset({CleanupPolicy.COMPACT}))
    log = open_log(tmp_path, configuration)
    records = written(log, 40)
    log.abandon()
    second = sorted(tmp_path.glob("*.log"))[1]
    second.write_bytes(second.read_bytes()[:-1])
    log = open_log(tmp_path, configuration)
    end = log.log_end_offset
    assert int(second.stem) < end < 39
    assert records_from(log, 0) == records[:end]


def test_a_replicated_log_keeps_gaps_below_its_recovery_point(tmp_path: Path) -> None:
    log = open_log(tmp_path, REPLICATED)
    written(log, 40)
    log.flush()
    log.abandon()
    second = sorted(tmp_path.glob("*.log"))[1]
    second.write_bytes(b"")
    assert open_log(tmp_path, REPLICATED, recovery_point=40).log_end_offset == 40


@pytest.mark.parametrize("content", [None, b"", bytes(30)], ids=["missing", "empty", "zeros"])
@pytest.mark.parametrize("was_clean", [True, False])
def test_leader_epochs_are_rebuilt_from_batches(
    tmp_path: Path,
    was_clean: bool,  # noqa: FBT001 - by name
    content: bytes | None,
) -> None:
    log = open_log(tmp_path)
    written(log, 20)
    epochs = log.leader_epochs.entries()
    assert len(epochs) == 4
    log.close()
    path = tmp_path / "leader-epoch-checkpoint"
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    log = open_log(tmp_path, was_clean=was_clean, recovery_point=20)
    assert log.leader_epochs.entries() == epochs
    log.abandon()
    assert open_log(tmp_path, was_clean=True).leader_epochs.entries() == epochs


@pytest.mark.parametrize("was_clean", [True, False])
def test_producer_state_survives_a_crash(tmp_path: Path, was_clean: bool) -> None:  # noqa: FBT001 - by name
    log = open_log(tmp_path)
    for sequence in range(30):
        append(log, bytes(50), producer_id=7, base_sequence=sequence)
    log.close() if was_clean else log.abandon()
    log = open_log(tmp_path, was_clean=was_clean)
    assert [state.last_sequence for state in log.producers.active()] == [29]


def test_a_corrupt_producer_snapshot_is_replaced_from_the_log(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for sequence in range(30):
        append(log, bytes(50), producer_id=7, base_sequence=sequence)
    log.close()
    for path in tmp_path.glob("*.snapshot"):
        path.write_bytes(b"broken")
    log = open_log(tmp_path, was_clean=True)
    assert [state.last_sequence for state in log.producers.active()] == [29]


def test_nothing_is_scanned_after_a_clean_shutdown(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfiguration(segment_bytes=400_000))
    records = written(log, 800, size=2000)
    log.close()
    disk = CountingDisk()
    log = open_log(tmp_path, was_clean=True, recovery_point=800, disk=disk)
    assert log.log_end_offset == 800
    assert disk.bytes_read < 20_000
    assert disk.calls["map"] == 0
    assert records_from(log, 0) == records


def test_flushed_sealed_segments_are_not_read_by_recovery(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfiguration(segment_bytes=400_000))
    records = written(log, 800, size=2000)
    due = log.flush_due(NOW)
    assert due is not None
    log.flush(due)
    log.abandon()
    disk = CountingDisk()
    log = open_log(tmp_path, recovery_point=due, disk=disk)
    assert disk.calls["map"] == 1  # only the active segment
    assert records_from(log, 0) == records


def test_missing_or_corrupt_indexes_are_rebuilt(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    records = written(log, 40)
    log.close()
    files = sorted(tmp_path.glob("*index"))
    for number, path in enumerate(files):
        path.unlink() if number % 2 else path.write_bytes(b"nonsense" * 3)
    log = open_log(tmp_path, was_clean=True)
    assert log.log_end_offset == 40
    assert [records_from(log, offset) for offset in range(40)] == [
        records[offset:] for offset in range(40)
    ]


@pytest.mark.parametrize("name", ["5.log", "5.index", "5.timeindex", "5.snapshot"])
@pytest.mark.parametrize("suffix", [".deleted", ".cleaned", ".tmp"])
def test_leftover_files_of_a_crash_are_removed(tmp_path: Path, name: str, suffix: str) -> None:
    log = open_log(tmp_path)
    records = written(log, 10)
    log.close()
    leftover = tmp_path / f"{name.zfill(24)}{suffix}"
    leftover.write_bytes(b"x" * 100)
    assert records_from(open_log(tmp_path, was_clean=True), 0) == records
    assert not leftover.exists()


def test_an_index_without_its_log_is_removed(tmp_path: Path) -> None:
    (tmp_path / f"{7:020d}.index").write_bytes(b"x" * 8)
    open_log(tmp_path)
    assert not (tmp_path / f"{7:020d}.index").exists()


def test_a_finished_compaction_is_completed_at_start(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log")
    records = written(log, 20)
    log.close()
    names = sorted(path.name for path in (tmp_path / "log").glob("*.log"))
    merged = b"".join((tmp_path / "log" / name).read_bytes() for name in names[:2])
    (tmp_path / "log" / f"{names[0]}.swap").write_bytes(merged)
    log = open_log(tmp_path / "log", was_clean=True)
    assert records_from(log, 0) == records
    assert log.segment_count == len(names) - 1


def test_a_log_that_ends_below_its_start_offset_restarts_there(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    written(log, 3)
    log.close()
    log = open_log(tmp_path, log_start_offset=50)
    assert (log.log_start_offset, log.log_end_offset) == (50, 50)
    assert append(log, b"a").first_offset == 50


def test_recovery_is_idempotent(tmp_path: Path) -> None:
    log = open_log(tmp_path / "a", SMALL)
    records = written(log, 33)
    log.abandon()
    open_log(tmp_path / "a", SMALL).abandon()
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    assert records_from(open_log(tmp_path / "b", SMALL), 0) == records


def test_a_corrupt_segment_is_verified_after_a_clean_shutdown(tmp_path: Path) -> None:
    log = open_log(tmp_path, ONE_SEGMENT)
    records = written(log, 10)
    log.close()
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(path.read_bytes()[:-1])
    log = open_log(tmp_path, ONE_SEGMENT, was_clean=True)
    assert records_from(log, 0) == records[:9]


def test_a_corrupt_swap_file_is_removed(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    records = written(log, 10)
    log.close()
    (tmp_path / f"{0:020d}.log.swap").write_bytes(b"x" * 100)
    (tmp_path / f"{0:020d}.index.swap").write_bytes(b"x" * 8)
    assert records_from(open_log(tmp_path, was_clean=True), 0) == records
    assert list(tmp_path.glob("*.swap")) == []


def test_verify_reports_path_and_position_of_corruption(tmp_path: Path) -> None:
    log = open_log(tmp_path, ONE_SEGMENT)
    written(log, 10)
    batch_bytes = log.size_bytes // 10
    assert list(log.verify()) == []
    path = tmp_path / f"{0:020d}.log"
    content = bytearray(path.read_bytes())
    content[3 * batch_bytes + 70] ^= 1
    path.write_bytes(content)
    (said,) = log.verify()
    assert said == (f"{path}, position {3 * batch_bytes}: batch at offset 3 has a wrong checksum")


def test_reading_stops_before_invalid_bytes(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfiguration())
    written(log, 30)
    log.close()
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(bytes(path.stat().st_size))
    log = open_log(tmp_path, LogConfiguration(), was_clean=True)
    assert log.log_end_offset == 0  # found at start by a scan to the end
    assert log.read(0, bytes_max=1000, end_offset=0) is None


# --- segments that were not flushed before a power loss


def lose_tail(directory: Path, *, empty: int, batches_lost: int, log: Log) -> tuple[int, int]:
    """Cuts whole batches from a segment and empties later ones; returns both new ends."""
    paths = sorted(directory.glob("*.log"))
    batch_bytes = log.size_bytes // log.log_end_offset
    for path in paths[-empty:]:
        path.write_bytes(b"")
    last = paths[-empty - 1]
    last.write_bytes(last.read_bytes()[: -batches_lost * batch_bytes or None])
    return int(last.stem) + last.stat().st_size // batch_bytes, int(paths[-1].stem)


@pytest.mark.parametrize("policy", CleanupPolicy)
@pytest.mark.parametrize("empty", [1, 2, 3])
def test_recovery_removes_empty_segments_after_a_gap(
    tmp_path: Path, policy: CleanupPolicy, empty: int, caplog: pytest.LogCaptureFixture
) -> None:
    configuration = replace(SMALL, cleanup_policy=frozenset({policy}))
    log = open_log(tmp_path, configuration)
    for sequence in range(60):
        append(log, b"%05d" % sequence, producer_id=7, base_sequence=sequence)
    records = records_from(log, 0)
    log.abandon()
    end, claimed = lose_tail(tmp_path, empty=empty, batches_lost=2, log=log)
    assert end < claimed
    with caplog.at_level(logging.WARNING):
        log = open_log(tmp_path, configuration)
    assert log.log_end_offset == end
    assert records_from(log, 0) == records[:end]
    assert [state.last_sequence for state in log.producers.active()] == [end - 1]
    assert [path for path in tmp_path.glob("0*") if int(path.stem) > end] == []
    assert f"removed it and {empty - 1} more; the log ends at offset {end}" in caplog.text
    assert append(log, b"next").first_offset == end
    assert records_from(log, end) == [(end, b"next")]


def test_recovery_keeps_an_empty_segment_that_continues_the_log(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    written(log, 20)
    log.roll(NOW)
    log.abandon()
    log = open_log(tmp_path)
    assert (tmp_path / f"{20:020d}.log").exists()
    assert log.log_end_offset == 20


def test_recovery_keeps_an_empty_segment_at_the_recovery_point(tmp_path: Path) -> None:
    """All records below were flushed, so compaction removed the missing ones."""
    log = open_log(tmp_path)
    written(log, 20)
    log.roll(NOW)
    log.abandon()
    last = sorted(tmp_path.glob("*.log"))[-2]
    last.write_bytes(last.read_bytes()[: -log.size_bytes // 20])
    log = open_log(tmp_path, recovery_point=20)
    assert log.log_end_offset == 20


def test_recovery_keeps_segments_with_batches_after_an_empty_one(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    records = written(log, 40)
    log.abandon()
    paths = sorted(tmp_path.glob("*.log"))
    paths[2].write_bytes(b"")
    log = open_log(tmp_path)
    lost = range(int(paths[2].stem), int(paths[3].stem))
    assert records_from(log, 0) == [it for it in records if it[0] not in lost]
    assert not paths[2].exists()
    assert log.log_end_offset == 40


def test_a_log_with_only_empty_segments_starts_at_the_first(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    written(log, 40)
    log.abandon()
    paths = sorted(tmp_path.glob("*.log"))
    for path in paths[:2]:
        path.unlink()
    for path in paths[2:]:
        path.write_bytes(b"")
    log = open_log(tmp_path)
    assert log.log_start_offset == log.log_end_offset == int(paths[2].stem)


@pytest.mark.parametrize("zeros_after", [0, 4096])
def test_a_tail_of_zeros_is_cut_and_later_segments_are_kept(
    tmp_path: Path, zeros_after: int, caplog: pytest.LogCaptureFixture
) -> None:
    log = open_log(tmp_path)
    records = written(log, 40)
    batch_bytes = log.size_bytes // 40
    log.abandon()
    path = sorted(tmp_path.glob("*.log"))[1]
    content = path.read_bytes()
    path.write_bytes(content[: -2 * batch_bytes - 60] + bytes(2 * batch_bytes + 60 + zeros_after))
    with caplog.at_level(logging.WARNING):
        log = open_log(tmp_path)
    first_lost = int(path.stem) + len(content) // batch_bytes - 3
    assert records_from(log, 0) == records[:first_lost] + records[first_lost + 3 :]
    assert f"it now ends at offset {first_lost}" in caplog.text
    assert "offsets missing at the ends of segments: 3," in caplog.text


def test_recovery_removes_segments_of_zeros_at_the_end(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    records = written(log, 40)
    batch_bytes = log.size_bytes // 40
    log.abandon()
    *_, torn, last = sorted(tmp_path.glob("*.log"))
    last.write_bytes(bytes(4096))
    torn.write_bytes(torn.read_bytes()[:-batch_bytes])
    log = open_log(tmp_path)
    end = int(last.stem) - 1
    assert (log.log_end_offset, records_from(log, 0)) == (end, records[:end])
    assert not last.exists()


def test_recovery_rebuilds_equal_indexes(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for number in range(60):
        append(log, b"%05d" % number + bytes(number % 7), timestamp=NOW + number * 37 % 50)
    log.close()
    before = {path.name: path.read_bytes() for path in tmp_path.glob("*index")}
    for path in tmp_path.glob("*index"):
        path.unlink()
    log = open_log(tmp_path)
    log.close()
    assert {path.name: path.read_bytes() for path in tmp_path.glob("*index")} == before
    assert all(before.values())


def test_an_emptied_time_index_is_rebuilt(tmp_path: Path) -> None:
    """Otherwise lookups would skip the segment, and retention would use the file time."""
    log = open_log(tmp_path)
    written(log, 40)
    last = NOW + 10**9
    append(log, b"late", timestamp=last)
    log.roll(NOW)
    append(log, b"young")
    log.close()
    for path in tmp_path.glob("*.timeindex"):
        path.write_bytes(b"")
    for path in tmp_path.glob("*.log"):
        os.utime(path, (0, 0))
    log = open_log(tmp_path, was_clean=True)
    found = log.read_view().use(ReadView.offset_at_timestamp, last)
    assert found is not None
    assert found.offset == 40


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere such bytes end the process")
def test_unreadable_bytes_fail_the_recovery_of_their_log(tmp_path: Path) -> None:
    log = open_log(tmp_path, ONE_SEGMENT)
    written(log, 40, size=4_000)
    log.abandon()
    with pytest.raises(OSError, match=r"Input/output error between bytes 0 and .*\.log"):
        open_log(tmp_path, ONE_SEGMENT, disk=UnreadableMaps())
    assert len(records_from(open_log(tmp_path, ONE_SEGMENT), 0)) == 40
