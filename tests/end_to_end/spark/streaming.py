"""Scenarios of streams."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from confluent_kafka.admin import NewPartitions

from tests.end_to_end.spark.spark_fixture import Batches, SparkFixture, settle, wait_until

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import StreamingQuery

READING = "from_json(cast(value AS string), 'number INT, truck STRING') AS report"


def all_records_in_bounded_batches(fixture: SparkFixture) -> object:
    batches = Batches()
    frame = fixture.stream(fixture.filled(), maxOffsetsPerTrigger=2000)
    query = fixture.run_once(frame, batches)
    return {**batches.summary(), "batches": batches.sizes, "lag": lag(query)}


def lag(query: StreamingQuery) -> dict[str, Any]:
    """Returns the lag that the query reports after its last batch."""
    progress = query.lastProgress
    assert progress is not None
    metrics = json.loads(progress.json)["sources"][0]["metrics"]
    return {name: metrics[name] for name in sorted(metrics) if "BehindLatest" in name}


def while_writing(fixture: SparkFixture) -> object:
    topic, batches = fixture.topic(10), Batches()
    fixture.write_numbers(topic, 5000, partitions=10)
    with fixture.running(fixture.stream(topic), batches) as query:
        wait_until(lambda: len(batches.all) >= 5000, query)
        fixture.write_numbers(topic, 500, partitions=10)
        wait_until(lambda: len(batches.all) >= 5500, query)
    return batches.summary()


def windows_into_a_topic(fixture: SparkFixture) -> object:
    """Counts 2,000 reports of 20 trucks over ten minutes, per truck and minute."""
    source, target = fixture.topic(2), fixture.topic(2)
    minute = int(time.time()) // 60 - 20
    fixture.write_numbers(source, 2000, partitions=2, since_ms=minute * 60_000, step_ms=300)
    counts = (
        fixture.stream(source)
        .selectExpr("timestamp", "cast(key AS string) AS key")
        .withWatermark("timestamp", "1 minute")
        .groupBy("key", windows())
        .count()
        .selectExpr("key", "to_json(struct(window.start, count)) AS value")
    )
    query = (
        counts.writeStream.format("kafka")
        .outputMode("update")
        .option("kafka.bootstrap.servers", fixture.broker.bootstrap)
        .option("topic", target)
        .option("checkpointLocation", fixture.checkpoint())
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)
    written = fixture.read(target).selectExpr(
        "from_json(cast(value AS string), 'start STRING, count INT').count AS n"
    )
    return {"records": written.count(), "reports": sum(row.n for row in written.collect())}


def windows() -> Any:
    from pyspark.sql.functions import window

    return window("timestamp", "1 minute")


def continued_from_a_checkpoint(fixture: SparkFixture) -> object:
    topic, checkpoint = fixture.topic(4), fixture.name("kept")
    fixture.write_numbers(topic, 1000, partitions=4)
    first = fixture.drain(fixture.stream(topic), checkpoint)
    fixture.write_numbers(topic, 300, partitions=4)
    second = fixture.drain(fixture.stream(topic), checkpoint)
    return {
        "first": first.summary(),
        "second": second.summary(),
        "positions": len({*first.all, *second.all}),
    }


def added_partitions(fixture: SparkFixture) -> object:
    topic, batches = fixture.topic(2), Batches()
    fixture.write_numbers(topic, 100, partitions=2)
    frame = fixture.stream(topic, kafka__metadata__max__age__ms=1000)
    with fixture.running(frame, batches) as query:
        wait_until(lambda: len(batches.all) >= 100, query)
        settle(fixture.admin.create_partitions([NewPartitions(topic, 4)]))
        fixture.write_numbers(topic, 400, partitions=4)
        wait_until(lambda: len(batches.all) >= 500, query)
    return {**batches.summary(), "partitions": len({it.partition for it in batches.all})}


def continuously(fixture: SparkFixture) -> object:
    """Streams in continuous mode, without batches."""
    source, target = fixture.topic(1), fixture.topic(1)
    fixture.write_numbers(source, 200)
    query = (
        fixture.stream(source)
        .selectExpr("key", "value")
        .writeStream.format("kafka")
        .option("kafka.bootstrap.servers", fixture.broker.bootstrap)
        .option("topic", target)
        .option("checkpointLocation", fixture.checkpoint())
        .trigger(continuous="1 second")
        .start()
    )
    try:
        wait_until(lambda: fixture.read(target).count() >= 200, query)
    finally:
        query.stop()
    return fixture.read(target).select("value").distinct().count()


def minimum_records_of_a_batch(fixture: SparkFixture) -> object:
    """The first batch starts at once, the second after 300 records in both topics together."""
    stem, batches = fixture.name("many"), Batches()
    for name in (f"{stem}-a", f"{stem}-b"):
        fixture.create(name)
        fixture.write_numbers(name, 100)
    frame = fixture.streamer(
        subscribePattern=f"{stem}-.*", startingOffsets="earliest", minOffsetsPerTrigger=300
    ).load()
    with fixture.running(frame, batches) as query:
        wait_until(lambda: len(batches.all) >= 200, query)
        fixture.write_numbers(f"{stem}-a", 150)
        fixture.write_numbers(f"{stem}-b", 150)
        wait_until(lambda: len(batches.all) >= 500, query)
    return batches.sizes


def invalid_records_into_another_topic(fixture: SparkFixture) -> object:
    source, dead_letters = fixture.topic(2), fixture.topic(1)
    fixture.write_numbers(source, 90, partitions=2)
    producer = fixture.producer()
    for number in range(10):
        producer.produce(source, f"broken {number}", partition=number % 2)
    producer.flush(60)
    clean: list[int] = []

    def sort_out(batch: DataFrame, _number: int) -> None:
        read = batch.selectExpr("key", "value", "partition", "offset", READING)
        clean.extend(
            row.n for row in read.selectExpr("report.number AS n").collect() if row.n is not None
        )
        broken = read.where("report.number IS NULL").selectExpr(
            "value",
            "array(struct('offset' AS key, cast(cast(offset AS string) AS binary) AS value"
            ")) AS headers",
        )
        fixture.write(broken, dead_letters)

    fixture.run_once(fixture.stream(source), sort_out)
    letters = fixture.read(dead_letters, includeHeaders="true").collect()
    return {
        "clean": len(clean),
        "dead letters": len(letters),
        "headers": sorted({header.key for row in letters for header in row.headers}),
    }
