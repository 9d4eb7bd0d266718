"""A topic archived by Spark, read by those who know nothing of Spark."""

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


def places(directory: Path) -> list[tuple[int, int]]:
    table = pyarrow.dataset.dataset(directory, format="parquet", partitioning="hive").to_table()
    return sorted(zip(table["partition"].to_pylist(), table["offset"].to_pylist(), strict=True))


def rows(count: int, **more: Any) -> list[Row]:
    return [Row(f"v{number}", partition=number % 3, **more) for number in range(count)]


def test_records_lie_by_topic_and_day_with_all_that_they_have(
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


def test_a_batch_whose_commit_the_checkpoint_forgot_is_not_archived_again(
    source: "DataFrame", kafka: Broker, tmp_path: Path
) -> None:
    target = ArchiveTarget(path=str(tmp_path / "lake"), files_per_day_max=1)
    kafka.produce("007", rows(30))
    archive(source, target, tmp_path / "checkpoint")
    (tmp_path / "checkpoint/commits/0").unlink()
    (tmp_path / "checkpoint/commits/.0.crc").unlink()
    kafka.produce("007", rows(30))
    archive(source, target, tmp_path / "checkpoint")

    assert places(tmp_path / "lake") == [(p, offset) for p in range(3) for offset in range(20)]
    assert len(list((tmp_path / "lake").rglob("*.parquet"))) == 2


def test_a_new_query_is_refused_what_the_archive_has_and_may_leave_it_out(
    source: "DataFrame", kafka: Broker, tmp_path: Path
) -> None:
    from pyspark.errors import StreamingQueryException

    target = ArchiveTarget(path=str(tmp_path / "lake"))
    kafka.produce("007", rows(30))
    archive(source, target, tmp_path / "first")
    kafka.produce("007", rows(3))
    with pytest.raises(StreamingQueryException, match="has 007-0 up to offset 9, and this batch"):
        archive(source, target, tmp_path / "second")
    assert len(places(tmp_path / "lake")) == 30

    skipping = ArchiveTarget(path=str(tmp_path / "lake"), skip_archived=True)
    archive(source, skipping, tmp_path / "third")
    assert places(tmp_path / "lake") == [(p, offset) for p in range(3) for offset in range(11)]


def test_only_a_path_can_be_an_archive_of_parquet_files() -> None:
    with pytest.raises(CannotArchive, match='there is the format "delta"'):
        _ = ArchiveTarget(path="s3a://bucket/lake").directory
    assert ArchiveTarget(path="file:///a%20b/lake/").staging_directory == "/a b/.lake.staging"
