"""Compaction respects its limits of memory and disk bandwidth."""

import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykbroker_protocol.records.corrupt import CorruptBatch
from pykbroker_storage.compaction.offset_map import ENTRY_BYTES, OffsetMap, size_for
from pykbroker_storage.compaction.record_spans import record_spans
from pykbroker_storage.compaction.throttler import Throttler
from tests.storage.batches import NOW, open_log
from tests.storage.compaction_rounds import LARGE, append_keyed, compact

KEYS = 20_000
MAP_BYTES = 5_000 * ENTRY_BYTES
BUFFERS_BYTES = 3 << 20


@given(st.lists(st.tuples(st.binary(max_size=3), st.integers(0, 2**40)), max_size=200))
def test_the_offset_map_equals_a_dictionary(puts: list[tuple[bytes, int]]) -> None:
    keys = OffsetMap(300 * ENTRY_BYTES)
    expected = {}
    for key, offset in puts:
        assert keys.put(key, offset)
        expected[key] = offset
    assert {key: keys.get(key) for key, _ in puts} == expected
    assert keys.get(b"a key of other length") == -1


def test_a_full_map_rejects_new_keys_and_updates_known_ones() -> None:
    keys = OffsetMap(10 * ENTRY_BYTES)
    count = next(number for number in range(100) if not keys.put(b"%d" % number, number))
    assert 1 < count < 10
    assert keys.put(b"0", 500)
    assert keys.get(b"0") == 500
    assert keys.get(b"%d" % count) == -1


@pytest.mark.parametrize(("keys", "limit", "size"), [(1000, 1 << 30, 32384), (10**9, 4096, 4096)])
def test_the_map_size_depends_on_keys_and_limit(keys: int, limit: int, size: int) -> None:
    assert abs(size_for(keys, limit) - size) < 100


@pytest.mark.slow
def test_more_keys_need_more_rounds_in_the_same_memory(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log", LARGE)
    for start in range(0, KEYS, 100):
        append_keyed(log, [(b"key-%d" % key, b"v") for key in range(start, start + 100)])
    log.roll(NOW)
    append_keyed(log, [(b"active", b"")])
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        dirty = rounds = 0
        while dirty < KEYS:
            dirty = compact(log, first_dirty_offset=dirty, map_bytes_max=MAP_BYTES).end_offset
            rounds += 1
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert rounds >= KEYS * ENTRY_BYTES // MAP_BYTES
    assert peak - before < MAP_BYTES + BUFFERS_BYTES


class Time:
    """A clock that advances only by work and sleep."""

    def __init__(self) -> None:
        self.now = 100.0
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


def test_the_throttler_limits_bytes_per_second() -> None:
    time = Time()
    pace = Throttler(1_000_000, now_seconds=lambda: time.now, sleep=time.sleep)
    for _ in range(100):
        pace.count(50_000)
    assert time.now - 100 == pytest.approx(5, rel=0.05)
    assert len(time.slept) == 100


def test_the_throttler_never_sleeps_without_a_limit() -> None:
    time = Time()
    pace = Throttler(now_seconds=lambda: time.now, sleep=time.sleep)
    for _ in range(100):
        pace.count(50_000)
    assert not time.slept


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\x0e\0\0\0",
        b"\x02\0\0\0\x01\x01\0",
        b"\x0e\0\0\0\x7e\x01\0",
        b"\x0c\0\0\0\x01\x01\0\0",
    ],
)
def test_malformed_records_raise_corrupt_batch(payload: bytes) -> None:
    with pytest.raises(CorruptBatch):
        list(record_spans(payload, 1))
