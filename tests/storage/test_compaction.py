"""Compaction keeps the last record of every key."""

from dataclasses import replace
from pathlib import Path
from struct import pack_into

import pytest

from pykbroker_protocol.records.batch import CHECKED_FROM, CRC_AT, iterate_batches
from pykbroker_protocol.records.builder import BatchBuilder
from pykbroker_protocol.records.compression import Compression
from pykbroker_protocol.records.crc32c import checksum
from pykbroker_storage.compaction import (
    Compaction,
    CompactionLimits,
    Rewritten,
    SegmentRewriter,
    SourcesChanged,
    find_cleanable,
)
from pykbroker_storage.compaction.throttler import UNLIMITED, Throttler
from pykbroker_storage.configuration import CleanupPolicy
from pykbroker_storage.filesystem import DiskFull
from pykbroker_storage.log import Log
from pykbroker_storage.transaction_index import decode_aborted
from tests.storage.batches import NOW, batches_from, open_log
from tests.storage.compaction_rounds import (
    COMPACTED,
    DELETE_RETENTION_MS,
    LARGE,
    append_keyed,
    compact,
    end_transaction,
    keyed_records,
    markers,
)
from tests.storage.disks import SmallDisk

LATER = NOW + DELETE_RETENTION_MS


def sealed_log(tmp_path: Path, *batches: list[tuple[bytes, bytes | None]]) -> Log:
    log = open_log(tmp_path / "log", LARGE)
    for pairs in batches:
        append_keyed(log, pairs)
    seal(log)
    return log


def seal(log: Log) -> None:
    """Makes all appended records compactable, with one more record in the active segment."""
    log.roll(NOW)
    append_keyed(log, [(b"active", b"-")])


def kept(log: Log) -> list[tuple[int, bytes, bytes | None]]:
    return [it for it in keyed_records(log) if it[1] != b"active"]


def test_compaction_keeps_the_last_record_of_each_key_at_its_offset(tmp_path: Path) -> None:
    log = sealed_log(
        tmp_path,
        [(b"a", b"1"), (b"b", b"1"), (b"a", b"2")],
        [(b"c", b"1"), (b"b", b"2")],
    )
    round_ = compact(log)
    assert kept(log) == [(2, b"a", b"2"), (3, b"c", b"1"), (4, b"b", b"2")]
    assert round_.end_offset == 5


def test_the_active_segment_is_compacted_only_after_it_is_sealed(tmp_path: Path) -> None:
    log = sealed_log(tmp_path, [(b"a", b"1")])
    append_keyed(log, [(b"a", b"2")])
    compact(log)
    assert [it[2] for it in kept(log)] == [b"1", b"2"]
    seal(log)
    compact(log, first_dirty_offset=1)
    assert [it[2] for it in kept(log)] == [b"2"]


@pytest.mark.parametrize("compression", Compression)
def test_a_filtered_batch_keeps_its_compression_type(
    tmp_path: Path, compression: Compression
) -> None:
    log = open_log(tmp_path / "log", LARGE)
    append_keyed(log, [(b"a", b"x" * 200), (b"b", b"y" * 200)], compression=compression)
    append_keyed(log, [(b"a", b"z" * 200)])
    seal(log)
    compact(log)
    assert kept(log) == [(1, b"b", b"y" * 200), (2, b"a", b"z" * 200)]
    assert next(batches_from(log, 0)).compression is compression


def test_a_tombstone_is_removed_after_delete_retention_ms(tmp_path: Path) -> None:
    log = sealed_log(tmp_path, [(b"a", b"1")], [(b"a", None), (b"b", b"1")])
    compact(log)
    assert kept(log) == [(1, b"a", None), (2, b"b", b"1")]
    batch = next(batches_from(log, 0))
    assert batch.has_delete_horizon
    assert batch.base_timestamp == NOW + DELETE_RETENTION_MS
    assert [record.timestamp for record in batch.records()] == [NOW, NOW + 1]
    compact(log, now_ms=LATER - 1)
    assert kept(log) == [(1, b"a", None), (2, b"b", b"1")]
    compact(log, now_ms=LATER)
    assert kept(log) == [(2, b"b", b"1")]


def test_records_above_the_last_stable_offset_are_not_compacted(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log", LARGE)
    append_keyed(log, [(b"a", b"1"), (b"a", b"2")])
    log.roll(NOW)
    append_keyed(log, [(b"a", b"3")], producer_id=1, base_sequence=0, is_transactional=True)
    append_keyed(log, [(b"a", b"4")])
    seal(log)
    round_ = compact(log)
    assert round_.end_offset == 2
    assert [it[2] for it in kept(log)] == [b"2", b"3", b"4"]


def test_aborted_records_are_removed_and_do_not_replace_earlier_values(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log", LARGE)
    append_keyed(log, [(b"a", b"1"), (b"b", b"1")])
    append_keyed(log, [(b"a", b"no")], producer_id=1, base_sequence=0, is_transactional=True)
    append_keyed(log, [(b"b", b"yes")], producer_id=2, base_sequence=0, is_transactional=True)
    end_transaction(log, 1, is_commit=False)
    end_transaction(log, 2, is_commit=True)
    seal(log)
    compact(log)
    assert kept(log) == [(0, b"a", b"1"), (3, b"b", b"yes")]


def test_a_marker_above_the_cleaned_part_still_decides_its_transaction(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log", LARGE)
    append_keyed(log, [(b"a", b"1")])
    append_keyed(log, [(b"a", b"no")], producer_id=1, base_sequence=0, is_transactional=True)
    log.roll(NOW)
    append_keyed(log, [(b"b", b"?")], producer_id=2, base_sequence=0, is_transactional=True)
    end_transaction(log, 1, is_commit=False)
    round_ = compact(log)
    assert round_.end_offset == 2
    assert keyed_records(log) == [(0, b"a", b"1"), (2, b"b", b"?")]


def test_a_marker_without_data_is_kept_for_delete_retention_ms(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log", LARGE)
    for producer_id, is_commit in ((1, False), (2, True)):
        append_keyed(
            log, [(b"a", b"1")], producer_id=producer_id, base_sequence=0, is_transactional=True
        )
        # A batch of a later epoch, so that this one is not kept for the producer's sequences.
        end_transaction(log, producer_id, is_commit=is_commit)
    append_keyed(log, [(b"a", b"2")])
    seal(log)
    log.producers.expire(LATER * 2, 0)
    compact(log)
    assert [marker.has_delete_horizon for marker in markers(log)] == [False, False]
    compact(log)
    assert [marker.base_timestamp for marker in markers(log)] == [LATER, LATER]
    compact(log, now_ms=LATER)
    assert markers(log) == []
    assert kept(log) == [(4, b"a", b"2")]


def test_the_last_batch_of_a_producer_is_kept_empty_until_the_producer_expires(
    tmp_path: Path,
) -> None:
    log = open_log(tmp_path / "log", LARGE)
    append_keyed(log, [(b"a", b"1"), (b"a", b"2")], producer_id=7, base_sequence=5)
    append_keyed(log, [(b"a", b"3")])
    seal(log)
    compact(log)
    batch = next(batches_from(log, 0))
    assert (batch.record_count, batch.last_sequence, batch.last_offset) == (0, 6, 1)
    assert kept(log) == [(2, b"a", b"3")]
    before = list(log.producers.last_written())
    log.abandon()
    for snapshot in (tmp_path / "log").glob("*.snapshot"):
        snapshot.unlink()
    log = open_log(tmp_path / "log", LARGE)
    assert list(log.producers.last_written()) == before == [(7, 1, 0)]
    log.producers.expire(NOW * 2, 0)
    compact(log)
    assert next(batches_from(log, 0)).base_offset == 2


def test_compaction_rewrites_the_transaction_index(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log", LARGE)
    append_keyed(log, [(b"a", b"no")], producer_id=1, base_sequence=0, is_transactional=True)
    end_transaction(log, 1, is_commit=False)
    seal(log)
    compact(log)
    (index,) = (tmp_path / "log").glob("*.txnindex")
    (entry,) = decode_aborted(index.read_bytes())
    assert (entry.producer_id, entry.first_offset, entry.last_offset) == (1, 0, 1)
    assert entry.last_stable_offset == 2


def test_small_segments_are_merged_up_to_segment_bytes(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log", COMPACTED)
    for number in range(60):
        append_keyed(log, [(b"k%d" % (number % 20), b"v%d" % number)])
    seal(log)
    before = log.segment_count
    expected = {it[1]: it for it in kept(log)}
    compact(log)
    assert log.segment_count < before / 2
    assert all(segment.size_bytes <= 400 for segment in log.segments())
    assert {it[1]: it for it in kept(log)} == expected
    assert len(kept(log)) == 20
    assert list(log.verify()) == []


def test_a_full_offset_map_needs_several_rounds(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log", LARGE)
    for version in range(3):
        append_keyed(log, [(b"key-%d" % key, b"%d" % version) for key in range(100)])
    seal(log)
    dirty = rounds = 0
    while dirty < 300:
        came_to = compact(log, first_dirty_offset=dirty, map_bytes_max=40 * 24).end_offset
        assert came_to > dirty
        dirty, rounds = came_to, rounds + 1
    assert rounds > 3
    assert kept(log) == [(200 + key, b"key-%d" % key, b"2") for key in range(100)]


def test_a_view_stays_valid_after_compaction(tmp_path: Path) -> None:
    log = sealed_log(tmp_path, [(b"a", b"1" * 50)], [(b"a", b"2" * 50)])
    found = log.read(0, bytes_max=1000, end_offset=2)
    assert found is not None
    before = bytes(found.view)
    compact(log)
    assert bytes(found.view) == before
    assert len(kept(log)) == 1


def test_every_offset_can_be_read_after_compaction(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log", COMPACTED)
    for number in range(100):
        append_keyed(log, [(b"k%d" % (number % 7), b"v%d" % number)])
    seal(log)
    compact(log)
    everything = keyed_records(log)
    for offset in range(log.log_end_offset + 1):
        assert keyed_records(log, offset) == [it for it in everything if it[0] >= offset]


def test_timestamp_lookups_work_after_compaction(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log", COMPACTED)
    for number in range(40):
        append_keyed(log, [(b"k%d" % (number % 5), b"v")], timestamp=NOW + number)
    seal(log)
    compact(log)
    found = log.read_view().offset_at_timestamp(NOW + 3)
    assert found is not None
    assert found.offset == 35
    assert log.read_view().offset_at_timestamp(NOW + 38).offset == 38  # type: ignore[union-attr]  # it is there


def test_deleted_source_segments_end_the_round_without_leftover_files(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log", COMPACTED)
    round_, rewritten = half_a_round(log)
    log.advance_log_start(30, NOW)
    assert round_.sources_changed()
    with pytest.raises(SourcesChanged):
        round_.swap_in(rewritten)
    round_.abandon()
    assert list((tmp_path / "log").glob("*.cleaned")) == []
    assert [it[0] for it in keyed_records(log, 30)] == list(range(30, 40))


def half_a_round(log: Log) -> tuple[Compaction, Rewritten]:
    """Rewrites the first new segment of 40 records without swapping it in."""
    for number in range(40):
        append_keyed(log, [(b"k%d" % (number % 5), b"v")])
    cleanable = find_cleanable(
        log.segments()[:-1],
        log.configuration,
        first_dirty_offset=0,
        log_start_offset=0,
        log_end_offset=40,
        last_stable_offset=40,
        now_ms=NOW,
    )
    bounds = CompactionLimits(map_bytes_max=10_000, bytes_per_second=UNLIMITED)
    round_ = Compaction.begin(log, cleanable, now_ms=NOW, bounds=bounds)
    rewriting = SegmentRewriter(round_.job, log.filesystem, Throttler())
    rewriting.build_offset_map()
    rewritten = rewriting.write_next()
    assert rewritten is not None
    return round_, rewritten


def test_a_round_over_a_deleted_log_does_not_touch_a_new_log_with_its_name(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log", COMPACTED)
    round_, rewritten = half_a_round(log)
    log.abandon()
    (tmp_path / "log").rename(tmp_path / "deletion")
    half_a_round(open_log(tmp_path / "log", COMPACTED))
    names = sorted(path.name for path in (tmp_path / "log").iterdir())
    with pytest.raises(SourcesChanged):
        round_.swap_in(rewritten)
    round_.abandon()
    assert sorted(path.name for path in (tmp_path / "log").iterdir()) == names


def test_a_round_ends_when_the_policy_no_longer_contains_compact(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log", COMPACTED)
    for number in range(40):
        append_keyed(log, [(b"k", b"%d" % number)])
    records = keyed_records(log)
    log.configuration = replace(COMPACTED, cleanup_policy=frozenset({CleanupPolicy.DELETE}))
    with pytest.raises(SourcesChanged):
        compact(log)
    assert keyed_records(log) == records


def test_max_compaction_lag_ms_limits_the_age_of_the_active_segment(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log", replace(LARGE, max_compaction_lag_ms=100))
    append_keyed(log, [(b"a", b"1")])
    append_keyed(log, [(b"a", b"2")], timestamp=NOW + 101)
    assert log.segment_count == 2


@pytest.mark.parametrize("room_bytes", [0, 30, 70, 150, 300])
def test_a_full_disk_ends_the_round_without_a_change(tmp_path: Path, room_bytes: int) -> None:
    disk = SmallDisk(1 << 30)
    log = open_log(tmp_path / "log", COMPACTED, disk=disk)
    for number in range(40):
        append_keyed(log, [(b"k%d" % (number % 5), b"v")])
    log.roll(NOW)
    before = keyed_records(log)
    disk.room_bytes = room_bytes
    with pytest.raises(DiskFull):
        compact(log)
    assert list((tmp_path / "log").glob("*.cleaned")) == []
    assert keyed_records(log) == before
    disk.room_bytes = 1 << 30
    compact(log)
    assert len(keyed_records(log)) == 5


LATEST_MS, EARLIEST_MS = 2**63 - 1, -(2**63)


@pytest.mark.parametrize(
    ("base_ms", "later_by_ms"),
    [
        (LATEST_MS, 1),
        (LATEST_MS, LATEST_MS),
        (EARLIEST_MS, 0),
        (EARLIEST_MS, -1),
        (EARLIEST_MS, EARLIEST_MS),
        (NOW, LATEST_MS),
    ],
)
@pytest.mark.parametrize("value", [b"2", None], ids=["record", "tombstone"])
def test_timestamps_that_overflow_64_bits_survive_compaction(
    tmp_path: Path, base_ms: int, later_by_ms: int, value: bytes | None
) -> None:
    """A client can send such a batch: its header has another timestamp."""
    builder = BatchBuilder()
    for timestamp, pair in zip((0, later_by_ms), ((b"a", b"1"), (b"b", value)), strict=True):
        builder.append(timestamp, *pair)
    records = bytearray(builder.build())
    pack_into(">qq", records, 27, base_ms, NOW)
    pack_into(">I", records, CRC_AT, checksum(memoryview(records)[CHECKED_FROM:]))
    log = open_log(tmp_path / "log", LARGE)
    log.append(records, list(iterate_batches(records)), leader_epoch=0, now_ms=NOW)
    append_keyed(log, [(b"a", b"2")])
    seal(log)
    times = {it.offset: it.timestamp for batch in batches_from(log, 0) for it in batch.records()}
    compact(log)
    assert kept(log) == [(1, b"b", value), (2, b"a", b"2")]
    left = {it.offset: it.timestamp for batch in batches_from(log, 0) for it in batch.records()}
    assert left == {offset: times[offset] for offset in left}
    assert all(EARLIEST_MS <= it <= LATEST_MS for it in left.values())
