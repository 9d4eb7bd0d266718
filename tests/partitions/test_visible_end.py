"""Visible end of a partition for each reader, as pure functions."""

from __future__ import annotations

import pytest

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
