"""Reads the records of an archive, each partition in offset order."""

from __future__ import annotations

import heapq
from collections import defaultdict
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa
from pyarrow import compute, parquet

from pykbroker.pipeline.archive.coverage import offsets_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from pykbroker.pipeline.archive.archived_files import ArchivedFile

MS: Final = pa.timestamp("ms", tz="UTC")
CHUNK_ROWS: Final = 2000


class ArchivedRecord(NamedTuple):
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]


class Span(NamedTuple):
    """The offsets of one partition in one file."""

    first: int
    last: int
    path: Path


def partitions_of(files: Iterable[ArchivedFile]) -> dict[int, list[Span]]:
    """Returns the files of each partition with their offset ranges, in offset order."""
    spans: dict[int, list[Span]] = defaultdict(list)
    for file in files:
        for partition, offsets in offsets_in(file.path).items():
            spans[partition].append(Span(offsets[0].as_py(), offsets[-1].as_py(), file.path))
    return {partition: sorted(spans[partition]) for partition in sorted(spans)}


def records_of(partition: int, spans: Sequence[Span], start: int) -> Iterator[ArchivedRecord]:
    """Yields the records from an offset; duplicates are yielded once."""
    next_offset = start
    for overlapping in clusters([span for span in spans if span.last >= start]):
        streams = [records_in(span.path, partition, next_offset) for span in overlapping]
        for record in heapq.merge(*streams, key=attrgetter("offset")):
            if record.offset >= next_offset:
                yield record
                next_offset = record.offset + 1


def clusters(spans: Iterable[Span]) -> Iterator[list[Span]]:
    """Groups files with overlapping offset ranges, such as those of two days."""
    cluster: list[Span] = []
    for span in spans:
        if cluster and span.first > max(it.last for it in cluster):
            yield cluster
            cluster = []
        cluster.append(span)
    if cluster:
        yield cluster


def records_in(path: Path, partition: int, start: int) -> Iterator[ArchivedRecord]:
    """Reads one partition of a file into memory, because files of Delta may be unsorted."""
    filters = [("partition", "=", partition), ("offset", ">=", start)]
    table = parquet.read_table(path, filters=filters, partitioning=None).sort_by("offset")
    timestamps = compute.cast(compute.cast(table["timestamp"], MS, safe=False), pa.int64())
    columns = ["offset", "key", "value", "headers"]
    narrow = table.select(columns).append_column("timestamp_ms", timestamps)
    for batch in narrow.to_batches(max_chunksize=CHUNK_ROWS):
        for row in batch.to_pylist():
            yield record_of(partition, row)


def record_of(partition: int, row: dict[str, Any]) -> ArchivedRecord:
    headers = [(header["key"], header["value"]) for header in row["headers"] or ()]
    return ArchivedRecord(
        partition, row["offset"], row["timestamp_ms"], row["key"], row["value"], headers
    )
