"""A process killed before any change to a file loses nothing; a restart finishes the work."""

import shutil
from collections.abc import Mapping
from itertools import count
from pathlib import Path

import pytest

from pykbroker_storage.filesystem import LOCAL_DISK, FileSystem
from pykbroker_storage.log import Log
from tests.storage.batches import NOW, open_log
from tests.storage.compaction_rounds import (
    COMPACTED,
    DELETE_RETENTION_MS,
    DeadlyDisk,
    Killed,
    append_keyed,
    compact,
    end_transaction,
    keyed_records,
    last_values,
)

MUCH = 10**9


def build(directory: Path) -> tuple[list[tuple[int, bytes, bytes | None]], set[int]]:
    """Creates a log with all kinds of batches; returns its records and the aborted offsets."""
    log = open_log(directory, COMPACTED)
    aborted = set()
    for number in range(8):
        key, sequence = b"key-%d" % (number % 5), number // 2
        append_keyed(log, [(key, b"%d" % number), (b"other", None if number % 3 else b"1")])
        offset = append_keyed(
            log,
            [(key, b"t%d" % number)],
            producer_id=number % 2,
            base_sequence=sequence,
            is_transactional=True,
            leader_epoch=number // 3,
        )
        if number % 4 == 1:
            aborted.add(offset)
        end_transaction(log, number % 2, is_commit=number % 4 != 1)
    records = keyed_records(log)
    log.producers.advance_high_watermark(log.log_end_offset)
    log.flush()
    log.abandon()
    return records, aborted


def opened(directory: Path, disk: FileSystem = LOCAL_DISK) -> Log:
    return open_log(directory, COMPACTED, disk=disk, recovery_point=MUCH)


def check(
    log: Log,
    written: list[tuple[int, bytes, bytes | None]],
    aborted: set[int],
) -> Mapping[bytes, bytes]:
    found = keyed_records(log)
    assert set(found) <= set(written)
    assert found == sorted(found)
    assert log.log_end_offset == 32
    assert list(log.verify()) == []
    committed = [it for it in found if it[0] not in aborted]
    expected = last_values([it for it in written if it[0] not in aborted])
    assert last_values(committed) == expected
    return expected


def kill_in_compaction(directory: Path, calls: int) -> bool:
    """Returns whether the process was killed before the round ended."""
    disk = DeadlyDisk(MUCH)
    log = opened(directory, disk)
    disk.calls_left = calls
    try:
        compact(log, now_ms=NOW)
        compact(log, now_ms=NOW + DELETE_RETENTION_MS)
    except Killed:
        return True
    else:
        return False
    finally:
        log.abandon()
        disk.bury()


def kill_in_recovery(directory: Path, calls: int) -> bool:
    disk = DeadlyDisk(calls)
    try:
        log = opened(directory, disk)
    except Killed:
        disk.bury()
        return True
    disk.calls_left = MUCH
    log.abandon()
    return False


def copy_of(directory: Path, name: str) -> Path:
    target = directory.with_name(name)
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(directory, target)
    return target


@pytest.mark.slow
def test_a_kill_at_any_step_of_compaction_or_its_recovery_loses_no_record(tmp_path: Path) -> None:
    original = tmp_path / "original"
    written, aborted = build(original)
    undisturbed = copy_of(original, "undisturbed")
    assert not kill_in_compaction(undisturbed, MUCH)
    log = opened(undisturbed)
    check(log, written, aborted)
    final = keyed_records(log)
    log.abandon()
    steps = announced = 0
    while kill_in_compaction(killed := copy_of(original, "killed"), steps):
        announced += any(killed.glob("*.log.swap"))
        for calls in count(1):  # every start gets one call further
            if not kill_in_recovery(killed, calls):
                break
        log = opened(killed)
        check(log, written, aborted)
        left = {path.suffix for path in killed.iterdir()}
        assert left.isdisjoint({".cleaned", ".swap", ".deleted", ".tmp"})
        compact(log, now_ms=NOW)
        compact(log, now_ms=NOW + DELETE_RETENTION_MS)
        check(log, written, aborted)
        assert last_values(keyed_records(log)) == last_values(final)
        log.abandon()
        steps += 1
    assert steps > 50
    assert announced > 10
