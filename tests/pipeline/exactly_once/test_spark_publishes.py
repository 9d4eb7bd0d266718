"""Spark publishes a stream to a topic."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pykbroker import Broker, Row
from pykbroker.pipeline.topic_target import CannotPublish, TopicTarget

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

AS_SOURCE = (
    "key",
    "upper(cast(value AS string)) AS value",
    "headers",
    "timestamp",
    "topic AS source_topic",
    "partition AS source_partition",
    "offset AS source_offset",
)


@pytest.fixture
def source(spark: "SparkSession", kafka: Broker) -> "DataFrame":
    kafka.create_topics({"in": 3, "out": 3})
    stream = spark.readStream.format("kafka").option("kafka.bootstrap.servers", kafka.bootstrap)
    options = {"subscribe": "in", "startingOffsets": "earliest", "includeHeaders": "true"}
    return stream.options(**options).load()


def published(frame: "DataFrame", target: TopicTarget, checkpoint: Path) -> "StreamingQuery":
    from pykbroker.pipeline.exactly_once import publish_batch

    query = (
        frame.writeStream.foreachBatch(lambda rows, batch: publish_batch(rows, batch, target))
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(300)
    return query


def test_rows_keep_headers_timestamps_and_order_of_their_source(
    source: "DataFrame", kafka: Broker, tmp_path: Path
) -> None:
    rows = [
        Row(f"v{number}", key=f"k{number % 7}", headers={"h": str(number)}, timestamp_ms=number + 1)
        for number in range(100)
    ]
    kafka.produce("in", rows)
    target = TopicTarget(bootstrap=kafka.bootstrap, topic="out")
    published(source.selectExpr(*AS_SOURCE), target, tmp_path)

    for partition in range(3):  # keys are partitioned like in the Java client
        before = kafka.records("in", partition=partition)
        after = kafka.records("out", partition=partition)
        assert [str(it.text).upper() for it in before] == [it.text for it in after]
        assert [(it.key, it.headers, it.timestamp_ms) for it in before] == [
            (it.key, it.headers, it.timestamp_ms) for it in after
        ]


def test_batch_without_a_commit_file_is_not_published_again(
    source: "DataFrame", kafka: Broker, tmp_path: Path
) -> None:
    kafka.produce("in", [f"v{number}" for number in range(50)])
    target = TopicTarget(bootstrap=kafka.bootstrap, topic="out")
    frame = source.selectExpr(*AS_SOURCE)
    published(frame, target, tmp_path)
    (tmp_path / "commits" / "0").unlink()
    (tmp_path / "commits" / ".0.crc").unlink()
    kafka.produce("in", ["more"])
    published(frame, target, tmp_path)

    assert len(kafka.records("out")) == 51
    assert len({it.text for it in kafka.records("out")}) == 51


def test_rows_without_slot_columns_are_rejected(spark: "SparkSession", kafka: Broker) -> None:
    from pykbroker.pipeline.exactly_once import publish_batch

    target = TopicTarget(bootstrap=kafka.bootstrap, topic="out", query="q")
    with pytest.raises(CannotPublish, match="rows without a key need the columns"):
        publish_batch(spark.range(3).selectExpr("cast(id AS string) AS value"), 0, target)
    with pytest.raises(CannotPublish, match="do not have a column `value`"):
        publish_batch(spark.range(3).selectExpr("cast(id AS string) AS key"), 0, target)


def test_aggregates_are_divided_into_slots_by_key(spark: "SparkSession", kafka: Broker) -> None:
    from pykbroker.pipeline.exactly_once import publish_batch

    kafka.create_topics({"out": 4})
    target = TopicTarget(bootstrap=kafka.bootstrap, topic="out", query="q")
    rows = spark.range(200).selectExpr("cast(id % 20 AS string) AS key", "string(id) AS value")
    publish_batch(rows, 0, target)
    publish_batch(rows, 0, target)
    assert sorted(int(it.text or "") for it in kafka.records("out")) == list(range(200))
    marks = kafka.offsets("pykbroker.q.out.batches")
    assert set(marks.values()) == {1}
    assert len(marks) == 4
