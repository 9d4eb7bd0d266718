"""Archives written by Spark are read by other tools."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow.dataset
import pytest

from pykbroker import Broker, Row
from pykbroker.pipeline.archive.target import ArchiveTarget, CannotArchive

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DAY_MS = 86_400_000


@pytest.fixture
def source(spark: "SparkSession", kafka: Broker) -> "DataFrame":
    kafka.create_topics({"007": 3})
    stream = spark.readStream.format("kafka").option("kafka.bootstrap.servers", kafka.bootstrap)
    options = {"subscribe": "007", "startingOffsets": "earliest", "includeHeaders": "true"}
    return stream.options(**options).load()


def archive(frame: "DataFrame", target: ArchiveTarget, checkpoint: Path) -> None:
    from pykbroker.pipeline.archive.batches import archive_batch

    query = (
        frame.writeStream.foreachBatch(lambda rows, batch: archive_batch(rows, batch, target))
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(300)


def archived_offsets(directory: Path) -> list[tuple[int, int]]:
    table = pyarrow.dataset.dataset(directory, format="parquet", partitioning="hive").to_table()
    return sorted(zip(table["partition"].to_pylist(), table["offset"].to_pylist(), strict=True))


def rows(count: int, **more: Any) -> list[Row]:
    return [Row(f"v{number}", partition=number % 3, **more) for number in range(count)]


def test_records_are_stored_by_topic_and_day_with_all_fields(
    source: "DataFrame", kafka: Broker, tmp_path: Path
) -> None:
    kafka.produce(
        "007",
        [
            Row("a", key="k", partition=0, headers={"h": "1"}, timestamp_ms=5 * DAY_MS + 1),
            Row(None, key=None, partition=2, timestamp_ms=6 * DAY_MS),
        ],
    )
    archive(source, ArchiveTarget(path=str(tmp_path / "lake")), tmp_path / "checkpoint")

    found = duckdb.execute(
        f"""SELECT topic, day::VARCHAR, partition, "offset", epoch_ms(timestamp), timestamp_type,
            key, value, headers
        FROM read_parquet('{tmp_path}/lake/**/*.parquet', hive_types = {{topic: VARCHAR}})
        ORDER BY partition"""
    ).fetchall()
    assert found == [
        ("007", "1970-01-06", 0, 0, 5 * DAY_MS + 1, 0, b"k", b"a", [{"key": "h", "value": b"1"}]),
        ("007", "1970-01-07", 2, 0, 6 * DAY_MS, 0, None, None, None),
    ]


def test_batch_without_a_commit_file_is_not_archived_again(
    source: "DataFrame", kafka: Broker, tmp_path: Path
) -> None:
    target = ArchiveTarget(path=str(tmp_path / "lake"), files_per_day_max=1)
    kafka.produce("007", rows(30))
    archive(source, target, tmp_path / "checkpoint")
    (tmp_path / "checkpoint/commits/0").unlink()
    (tmp_path / "checkpoint/commits/.0.crc").unlink()
    kafka.produce("007", rows(30))
    archive(source, target, tmp_path / "checkpoint")

    assert archived_offsets(tmp_path / "lake") == [
        (p, offset) for p in range(3) for offset in range(20)
    ]
    assert len(list((tmp_path / "lake").rglob("*.parquet"))) == 2


def test_archived_records_of_a_new_query_are_rejected_or_skipped(
    source: "DataFrame", kafka: Broker, tmp_path: Path
) -> None:
    from pyspark.errors import StreamingQueryException

    target = ArchiveTarget(path=str(tmp_path / "lake"))
    kafka.produce("007", rows(30))
    archive(source, target, tmp_path / "first")
    kafka.produce("007", rows(3))
    with pytest.raises(
        StreamingQueryException, match="007-0 is archived up to offset 9, but this batch"
    ):
        archive(source, target, tmp_path / "second")
    assert len(archived_offsets(tmp_path / "lake")) == 30

    skipping = ArchiveTarget(path=str(tmp_path / "lake"), skip_archived=True)
    archive(source, skipping, tmp_path / "third")
    assert archived_offsets(tmp_path / "lake") == [
        (p, offset) for p in range(3) for offset in range(11)
    ]


def test_parquet_archive_needs_a_local_path() -> None:
    with pytest.raises(CannotArchive, match='use the format "delta"'):
        _ = ArchiveTarget(path="s3a://bucket/lake").directory
    assert ArchiveTarget(path="file:///a%20b/lake/").staging_directory == "/a b/.lake.staging"
