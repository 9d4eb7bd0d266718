"""Visible end and high watermark of a partition as pure functions."""

from __future__ import annotations

import pytest

from pykbroker.partitions.in_sync import advanced_high_watermark, may_write_to_all
from pykbroker.partitions.isolation import Isolation, Reader, last_stable_offset, readable_end


@pytest.mark.parametrize(
    ("reader", "isolation", "end"),
    [
        (Reader.CONSUMER, Isolation.READ_UNCOMMITTED, 20),
        (Reader.CONSUMER, Isolation.READ_COMMITTED, 10),
        (Reader.FOLLOWER, Isolation.READ_UNCOMMITTED, 30),
        (Reader.FOLLOWER, Isolation.READ_COMMITTED, 30),
    ],
)
def test_visible_end_of_each_reader(reader: Reader, isolation: Isolation, end: int) -> None:
    seen = readable_end(
        reader, isolation, last_stable_offset=10, high_watermark=20, log_end_offset=30
    )
    assert seen == end


@pytest.mark.parametrize(
    ("first_unstable_offset", "log_start_offset", "stable"),
    [(None, 0, 7), (3, 0, 3), (9, 0, 7), (3, 5, 5), (3, 7, 7)],
)
def test_last_stable_offset_is_the_first_offset_of_open_transactions(
    first_unstable_offset: int | None, log_start_offset: int, stable: int
) -> None:
    found = last_stable_offset(
        first_unstable_offset, log_start_offset=log_start_offset, high_watermark=7
    )
    assert found == stable


@pytest.mark.parametrize(
    ("current", "in_sync", "ends", "min_in_sync", "expected"),
    [
        (0, (1,), {1: 5}, 1, 5),
        (0, (1, 2), {1: 5, 2: 3}, 1, 3),
        (4, (1, 2), {1: 5, 2: 3}, 1, 4),
        (0, (1,), {1: 5}, 2, 0),
        (0, (1, 2), {1: 5}, 1, 0),
    ],
    ids=["alone", "slowest", "never back", "too few", "unknown follower"],
)
def test_high_watermark_is_the_smallest_end_of_in_sync_replicas(
    current: int,
    in_sync: tuple[int, ...],
    ends: dict[int, int],
    min_in_sync: int,
    expected: int,
) -> None:
    advanced = advanced_high_watermark(
        current, in_sync=in_sync, end_offsets=ends, min_in_sync=min_in_sync
    )
    assert advanced == expected


def test_acks_all_fails_below_min_insync_replicas() -> None:
    assert may_write_to_all((1, 2), 2)
    assert not may_write_to_all((1,), 2)
