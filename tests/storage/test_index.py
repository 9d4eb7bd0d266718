"""Indexes find what was put into them, in memory and after a way over the disk."""

from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykbroker_storage.formats import OFFSET_INDEX_ENTRY, TIME_INDEX_ENTRY
from pykbroker_storage.index import MalformedIndex, OffsetIndex, TimeIndex

ascending = st.lists(st.integers(1, 2**31 - 1), unique=True, max_size=30).map(sorted)


def offset_index(offsets: list[int], positions: list[int]) -> OffsetIndex:
    index = OffsetIndex()
    for offset, position in zip(offsets, positions, strict=False):
        index.append(offset, position)
    return index


@given(offsets=ascending, positions=ascending, wanted=st.integers(0, 2**31 - 1))
def test_an_offset_leads_to_the_last_entry_not_beyond_it(
    offsets: list[int], positions: list[int], wanted: int
) -> None:
    entries = list(zip(offsets, positions, strict=False))
    index = offset_index(offsets, positions)
    again = OffsetIndex.from_bytes(index.to_bytes(), log_bytes=2**31)
    expected = max((position for offset, position in entries if offset <= wanted), default=0)
    assert index.position_at_or_before(wanted) == expected
    assert again.position_at_or_before(wanted) == expected
    before = max((position for _, position in entries if position <= wanted), default=0)
    assert index.last_position_up_to(wanted) == before


@given(timestamps=st.lists(st.integers(0, 100), max_size=30), wanted=st.integers(-5, 105))
def test_no_record_before_the_offset_found_is_as_late_as_the_time(
    timestamps: list[int], wanted: int
) -> None:
    index = TimeIndex()
    for offset, timestamp in enumerate(timestamps):
        index.append(timestamp, offset)
    again = TimeIndex.from_bytes(index.to_bytes())
    found = index.offset_before(wanted)
    assert again.offset_before(wanted) == found
    assert all(timestamp < wanted for timestamp in timestamps[: found + 1]) or found == 0
    assert again.last_timestamp == max(timestamps, default=-1)


def test_entries_lie_on_disk_as_declared() -> None:
    offsets, times = offset_index([5, 300], [70, 4200]), TimeIndex()
    times.append(1_700_000_000_000, 300)
    first = OFFSET_INDEX_ENTRY.parse(offsets.to_bytes())
    assert (first.relative_offset, first.position) == (5, 70)
    entry = TIME_INDEX_ENTRY.parse(times.to_bytes())
    assert (entry.timestamp, entry.relative_offset) == (1_700_000_000_000, 300)


@given(offsets=ascending, positions=ascending, cut=st.integers(0, 2**31 - 1))
def test_truncation_forgets_the_batches_from_a_position_on(
    offsets: list[int], positions: list[int], cut: int
) -> None:
    index = offset_index(offsets, positions)
    index.truncate_to_position(cut)
    assert len(index) == sum(
        position < cut for position, _ in zip(positions, offsets, strict=False)
    )


@pytest.mark.parametrize(
    "data",
    [
        b"1234567",
        pack(">iiii", 5, 10, 5, 20),
        pack(">iiii", 5, 20, 6, 10),
        pack(">ii", 5, 1000),
        bytes(16),
    ],
    ids=["torn", "equal offsets", "positions descend", "beyond the log", "zeros"],
)
def test_bytes_that_are_no_offset_index_are_refused(data: bytes) -> None:
    with pytest.raises(MalformedIndex):
        OffsetIndex.from_bytes(data, log_bytes=1000)


@pytest.mark.parametrize(
    "data", [b"12345678901", pack(">qiqi", 5, 1, 5, 2), bytes(24)], ids=["torn", "equal", "zeros"]
)
def test_bytes_that_are_no_time_index_are_refused(data: bytes) -> None:
    with pytest.raises(MalformedIndex):
        TimeIndex.from_bytes(data)
