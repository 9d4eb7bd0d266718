"""How a batch comes into an archive, once, whatever happened to it before."""

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
    """`stage` writes the batch's files, `computed_ranges` tells what they would hold."""
    ledger.reject_other_file_system()
    latest = ledger.latest()
    if latest is not None:
        ledger.finish(latest)
        if batch_id <= latest.batch_id:
            reject_new_offsets(computed_ranges(), latest.next_offsets)
            return
    reach = ledger.reach()
    attempt = ledger.attempt(batch_id)
    stage(attempt, reach)
    ranges = staged_ranges(attempt.directory)
    if ranges:
        reject_overlap(ranges, reach)
        ledger.finish(ledger.record(attempt, ranges))
    remove_tree(attempt.directory)


def staged_ranges(directory: Path) -> dict[TopicPartition, OffsetRange]:
    """From two narrow columns of the files themselves: the records are not computed again."""
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
    ranges: Mapping[TopicPartition, OffsetRange], reach: Mapping[TopicPartition, int]
) -> None:
    """An offset names a record: where it is taken already, something is not as it was."""
    for where, span in sorted(ranges.items()):
        if span.first < reach.get(where, 0):
            raise CannotArchive(
                f"the archive has {where} up to offset {reach[where] - 1}, and this batch begins at"
                f" {span.first}. Is it a new query on the same topic, start it with"
                " skip_archived; was the topic deleted and made anew, give it a new archive"
            )


def reject_new_offsets(
    ranges: Mapping[TopicPartition, OffsetRange], reach: Mapping[TopicPartition, int]
) -> None:
    """A batch that comes again holds nothing new, if the checkpoint is as old as the archive."""
    for where, span in sorted(ranges.items()):
        if span.last >= reach.get(where, 0):
            raise CannotArchive(
                f"this batch was archived before, but then {where} ended before offset"
                f" {reach.get(where, 0)}, and now at {span.last}: the checkpoint is older than the"
                " archive. Start the query with a new checkpoint and skip_archived"
            )
