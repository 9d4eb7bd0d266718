"""Lookups in indexes, in memory and after a round trip to disk."""

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
def test_an_offset_lookup_returns_the_last_entry_at_or_before_it(
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
def test_records_below_a_time_lookup_are_older_than_the_timestamp(
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


def test_index_entries_have_the_declared_layout() -> None:
    offsets, times = offset_index([5, 300], [70, 4200]), TimeIndex()
    times.append(1_700_000_000_000, 300)
    first = OFFSET_INDEX_ENTRY.parse(offsets.to_bytes())
    assert (first.relative_offset, first.position) == (5, 70)
    entry = TIME_INDEX_ENTRY.parse(times.to_bytes())
    assert (entry.timestamp, entry.relative_offset) == (1_700_000_000_000, 300)


@given(offsets=ascending, positions=ascending, cut=st.integers(0, 2**31 - 1))
def test_truncation_removes_entries_from_a_position_on(
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
def test_a_malformed_offset_index_raises(data: bytes) -> None:
    with pytest.raises(MalformedIndex):
        OffsetIndex.from_bytes(data, log_bytes=1000)


@pytest.mark.parametrize(
    "data", [b"12345678901", pack(">qiqi", 5, 1, 5, 2), bytes(24)], ids=["torn", "equal", "zeros"]
)
def test_a_malformed_time_index_raises(data: bytes) -> None:
    with pytest.raises(MalformedIndex):
        TimeIndex.from_bytes(data)
