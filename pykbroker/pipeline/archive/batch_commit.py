"""Commits a batch to an archive exactly once, also after crashes of earlier attempts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyarrow import parquet

from pykbroker.pipeline.archive.atomic_files import remove_tree, visible_files
from pykbroker.pipeline.archive.batch_record import OffsetRange, TopicPartition
from pykbroker.pipeline.archive.ledger import SUFFIX
from pykbroker.pipeline.archive.target import CannotArchive

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from pykbroker.pipeline.archive.ledger import Attempt, Ledger


def archive_once(
    ledger: Ledger,
    batch_id: int,
    *,
    stage: Callable[[Attempt, Mapping[TopicPartition, int]], None],
    computed_ranges: Callable[[], Mapping[TopicPartition, OffsetRange]],
) -> None:
    """Archives a batch unless it is archived.

    `stage` writes the files of the batch, `computed_ranges` returns their offset ranges.
    """
    ledger.reject_other_file_system()
    latest = ledger.latest()
    if latest is not None:
        ledger.finish(latest)
        if batch_id <= latest.batch_id:
            reject_new_offsets(computed_ranges(), latest.next_offsets)
            return
    next_offsets = ledger.next_offsets()
    attempt = ledger.attempt(batch_id)
    stage(attempt, next_offsets)
    ranges = staged_ranges(attempt.directory)
    if ranges:
        reject_overlap(ranges, next_offsets)
        ledger.finish(ledger.record(attempt, ranges))
    remove_tree(attempt.directory)


def staged_ranges(directory: Path) -> dict[TopicPartition, OffsetRange]:
    """Reads the offset ranges from the staged files, which avoids recomputing the records."""
    ranges: dict[TopicPartition, OffsetRange] = {}
    for file in visible_files(directory, SUFFIX):
        topic = file.relative_to(directory).parts[0].removeprefix("topic=")
        table = parquet.ParquetFile(file).read(columns=["partition", "offset"])
        spans = table.group_by("partition").aggregate([("offset", "min"), ("offset", "max")])
        for row in spans.to_pylist():
            where = TopicPartition(topic, row["partition"])
            span = OffsetRange(row["offset_min"], row["offset_max"])
            ranges[where] = span.with_range(ranges.get(where, span))
    return ranges


def reject_overlap(
    ranges: Mapping[TopicPartition, OffsetRange], next_offsets: Mapping[TopicPartition, int]
) -> None:
    """Raises if offsets of the batch are already archived."""
    for where, span in sorted(ranges.items()):
        if span.first < next_offsets.get(where, 0):
            raise CannotArchive(
                f"{where} is archived up to offset {next_offsets[where] - 1}, but this batch starts"
                f" at {span.first}: set skip_archived for a new query on the same topic, or use a"
                " new archive for a recreated topic"
            )


def reject_new_offsets(
    ranges: Mapping[TopicPartition, OffsetRange], next_offsets: Mapping[TopicPartition, int]
) -> None:
    """Raises if a repeated batch has new offsets: its checkpoint is older than the archive."""
    for where, span in sorted(ranges.items()):
        if span.last >= next_offsets.get(where, 0):
            raise CannotArchive(
                f"this batch was archived when {where} ended before offset"
                f" {next_offsets.get(where, 0)}, but now ends at {span.last}: the checkpoint is"
                " older than the archive. Start the query with a new checkpoint and skip_archived"
            )
