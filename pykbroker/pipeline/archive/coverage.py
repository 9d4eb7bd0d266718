"""Computes the archived offsets of a partition: contiguous runs and duplicates."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyarrow import compute, parquet

from pykbroker.pipeline.archive.archived_files import CannotReadArchive
from pykbroker.pipeline.archive.batch_record import OffsetRange, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from pykbroker.pipeline.archive.archived_files import ArchivedFile

COLUMNS: Final = ["partition", "offset"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """Archived offsets of one partition."""

    records: int
    runs: tuple[OffsetRange, ...]
    """Ascending, with a gap between two of them."""
    duplicates: tuple[OffsetRange, ...]

    @property
    def first(self) -> int:
        return self.runs[0].first

    @property
    def next_offset(self) -> int:
        return self.runs[-1].last + 1

    @property
    def gaps(self) -> list[OffsetRange]:
        pairs = zip(self.runs, self.runs[1:], strict=False)
        return [OffsetRange(one.last + 1, other.first - 1) for one, other in pairs]


def coverage_of(files: Iterable[ArchivedFile]) -> dict[TopicPartition, Coverage]:
    """Reads two columns of one file at a time."""
    runs: dict[TopicPartition, list[OffsetRange]] = defaultdict(list)
    records: dict[TopicPartition, int] = defaultdict(int)
    for file in files:
        for partition, offsets in offsets_in(file.path).items():
            where = TopicPartition(file.topic, partition)
            records[where] += len(offsets)
            runs[where] += runs_of(offsets)
    return {where: merged(runs[where], records[where]) for where in sorted(runs)}


def offsets_in(path: Path) -> Mapping[int, Any]:
    """Returns the sorted offsets of each partition in a file."""
    try:
        table = parquet.ParquetFile(path).read(columns=COLUMNS)
    except (pa.ArrowInvalid, KeyError) as broken:
        raise CannotReadArchive(f"{path} cannot be read: {broken}") from broken
    if table.column_names != COLUMNS:
        raise CannotReadArchive(f"{path} lacks the columns {' and '.join(COLUMNS)}")
    offsets: dict[int, Any] = {}
    for partition in compute.unique(table["partition"]).to_pylist():
        own = table.filter(compute.equal(table["partition"], partition))["offset"]
        offsets[partition] = own.combine_chunks().sort()
    return offsets


def runs_of(offsets: Any) -> Iterator[OffsetRange]:
    """Yields contiguous runs. A duplicate offset starts a run that overlaps the previous one."""
    steps = compute.subtract(offsets[1:], offsets[:-1])
    breaks = compute.indices_nonzero(compute.not_equal(steps, 1)).to_pylist()
    starts = [0, *(index + 1 for index in breaks)]
    ends = [*breaks, len(offsets) - 1]
    for start, end in zip(starts, ends, strict=True):
        yield OffsetRange(offsets[start].as_py(), offsets[end].as_py())


def merged(runs: list[OffsetRange], records: int) -> Coverage:
    whole: list[OffsetRange] = []
    duplicates: list[OffsetRange] = []
    for run in sorted(runs):
        if whole and run.first <= whole[-1].last:
            duplicates.append(OffsetRange(run.first, min(run.last, whole[-1].last)))
        if whole and run.first <= whole[-1].last + 1:
            whole[-1] = whole[-1].with_range(run)
        else:
            whole.append(run)
    return Coverage(records=records, runs=tuple(whole), duplicates=tuple(duplicates))
