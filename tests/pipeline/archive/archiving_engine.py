"""Replaces Spark: plans batches, archives them and stores which are done."""

import sys
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

from pykbroker.pipeline.archive.batch_commit import archive_once
from pykbroker.pipeline.archive.batch_record import OffsetRange, TopicPartition
from pykbroker.pipeline.archive.ledger import Attempt, Ledger
from pykbroker.pipeline.archive.target import ArchiveTarget

BATCH_OFFSETS = 50
PARTITIONS = 3
DAYS = 2


def main(archive: Path, checkpoint: Path, batches: int) -> None:
    ledger = Ledger(ArchiveTarget(path=str(archive)), "query")
    for batch_id in range(batches):
        if not (checkpoint / str(batch_id)).exists():
            archive_batch(ledger, batch_id)
            (checkpoint / str(batch_id)).touch()


def archive_batch(ledger: Ledger, batch_id: int) -> None:
    first = batch_id * BATCH_OFFSETS
    span = OffsetRange(first, first + BATCH_OFFSETS - 1)

    def stage(attempt: Attempt, _: object) -> None:
        for partition in range(PARTITIONS):
            for day in range(DAYS):
                offsets = [it for it in range(span.first, span.last + 1) if it % DAYS == day]
                columns = {"partition": [partition] * len(offsets), "offset": offsets}
                directory = attempt.directory / "topic=trucks" / f"day=2026-01-0{day + 1}"
                directory.mkdir(parents=True, exist_ok=True)
                parquet.write_table(pa.table(columns), directory / f"part-{partition}.parquet")

    ranges = {TopicPartition("trucks", partition): span for partition in range(PARTITIONS)}
    archive_once(ledger, batch_id, stage=stage, computed_ranges=lambda: ranges)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
