"""Archives a batch; called by Spark's `foreachBatch`."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as sql

from pykbroker.pipeline.archive.batch_commit import archive_once
from pykbroker.pipeline.archive.batch_record import OffsetRange, TopicPartition
from pykbroker.pipeline.archive.ledger import Ledger
from pykbroker.pipeline.archive.target import ArchiveFormat
from pykbroker.pipeline.streaming_query import query_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame

    from pykbroker.pipeline.archive.ledger import Attempt
    from pykbroker.pipeline.archive.target import ArchiveTarget

MS_PER_DAY: Final = 86_400_000
SORT_COLUMNS: Final = ("topic", "day", "partition", "offset")
TIMESTAMP_TYPE: Final = "spark.sql.parquet.outputTimestampType"
HEADERS_TYPE: Final = "array<struct<key: string, value: binary>>"
WRITE_OPTIONS: Final = {
    # With version 2 a task that crashes during its commit leaves duplicate files.
    "mapreduce.fileoutputcommitter.algorithm.version": "1",
}


def archive_batch(frame: DataFrame, batch_id: int, target: ArchiveTarget) -> None:
    """Archives the records of a batch; a repeated batch has no effect.

    The frame has the columns of Spark's Kafka source; `headers` is optional.
    """
    writer = target.writer or query_of(frame)
    records = archived_columns(frame)
    if target.files_per_day_max is not None:
        records = records.coalesce(target.files_per_day_max)
    match target.format:
        case ArchiveFormat.PARQUET:
            archive_parquet(records, batch_id, target, writer)
        case ArchiveFormat.DELTA:
            archive_delta(records, batch_id, target, writer)


def archive_parquet(records: DataFrame, batch_id: int, target: ArchiveTarget, writer: str) -> None:
    def stage_new(attempt: Attempt, next_offsets: Mapping[TopicPartition, int]) -> None:
        stage(
            records.filter(not_archived(next_offsets)) if target.skip_archived else records, attempt
        )

    archive_once(
        Ledger(target, writer),
        batch_id,
        stage=stage_new,
        computed_ranges=lambda: computed_ranges(records),
    )


def archive_delta(records: DataFrame, batch_id: int, target: ArchiveTarget, writer: str) -> None:
    """Appends to a Delta table, whose log stores the last batch of each writer."""
    (
        records.sortWithinPartitions(*SORT_COLUMNS)
        .write.format("delta")
        .option("txnAppId", writer)
        .option("txnVersion", str(batch_id))
        .partitionBy("topic", "day")
        .mode("append")
        .save(target.path)
    )


def archived_columns(frame: DataFrame) -> DataFrame:
    """Returns the columns of the archive; the day is in UTC in any time zone of the session."""
    has_headers = "headers" in frame.columns
    headers = sql.col("headers") if has_headers else sql.lit(None).cast(HEADERS_TYPE)
    ms = sql.unix_millis(sql.col("timestamp"))
    return frame.select(
        "topic",
        sql.date_from_unix_date(sql.floor(ms / sql.lit(MS_PER_DAY)).cast("int")).alias("day"),
        "partition",
        "offset",
        "timestamp",
        sql.col("timestampType").alias("timestamp_type"),
        "key",
        "value",
        headers.alias("headers"),
    )


def stage(records: DataFrame, attempt: Attempt) -> None:
    session = records.sparkSession
    # Many readers misinterpret the default, INT96.
    before = session.conf.get(TIMESTAMP_TYPE, "INT96") or "INT96"
    session.conf.set(TIMESTAMP_TYPE, "TIMESTAMP_MILLIS")
    try:
        (
            records.sortWithinPartitions(*SORT_COLUMNS)
            .write.options(**WRITE_OPTIONS)
            .partitionBy("topic", "day")
            .parquet(attempt.directory.as_uri())
        )
    finally:
        session.conf.set(TIMESTAMP_TYPE, before)


def computed_ranges(records: DataFrame) -> dict[TopicPartition, OffsetRange]:
    spans = records.groupBy("topic", "partition").agg(
        sql.min("offset").alias("first"), sql.max("offset").alias("last")
    )
    return {
        TopicPartition(row.topic, row.partition): OffsetRange(row.first, row.last)
        for row in spans.collect()
    }


def not_archived(next_offsets: Mapping[TopicPartition, int]) -> Column:
    archived = (
        (sql.col("topic") == where.topic)
        & (sql.col("partition") == where.partition)
        & (sql.col("offset") < offset)
        for where, offset in next_offsets.items()
    )
    return ~reduce(lambda one, other: one | other, archived, sql.lit(False))
