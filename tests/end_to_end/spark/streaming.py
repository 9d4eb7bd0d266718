"""Scenarios in which Spark streams."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from confluent_kafka.admin import NewPartitions

from tests.end_to_end.spark.stage import Batches, Stage, settle, wait_until

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import StreamingQuery

READING = "from_json(cast(value AS string), 'number INT, truck STRING') AS report"


def all_there_is_in_bounded_batches(stage: Stage) -> object:
    batches = Batches()
    frame = stage.stream(stage.filled(), maxOffsetsPerTrigger=2000)
    query = stage.run_once(frame, batches)
    return {**batches.summary(), "batches": batches.sizes, "behind": behind(query)}


def behind(query: StreamingQuery) -> dict[str, Any]:
    """How far the query says that it is behind, after its last batch."""
    progress = query.lastProgress
    assert progress is not None
    metrics = json.loads(progress.json)["sources"][0]["metrics"]
    return {name: metrics[name] for name in sorted(metrics) if "BehindLatest" in name}


def while_records_come(stage: Stage) -> object:
    topic, batches = stage.topic(10), Batches()
    stage.write_numbers(topic, 5000, partitions=10)
    with stage.running(stage.stream(topic), batches) as query:
        wait_until(lambda: len(batches.all) >= 5000, query)
        stage.write_numbers(topic, 500, partitions=10)
        wait_until(lambda: len(batches.all) >= 5500, query)
    return batches.summary()


def windows_into_a_topic(stage: Stage) -> object:
    """2,000 reports of 20 trucks over ten minutes: a count for each truck and minute."""
    source, target = stage.topic(2), stage.topic(2)
    minute = int(time.time()) // 60 - 20
    stage.write_numbers(source, 2000, partitions=2, since_ms=minute * 60_000, step_ms=300)
    counts = (
        stage.stream(source)
        .selectExpr("timestamp", "cast(key AS string) AS key")
        .withWatermark("timestamp", "1 minute")
        .groupBy("key", windows())
        .count()
        .selectExpr("key", "to_json(struct(window.start, count)) AS value")
    )
    query = (
        counts.writeStream.format("kafka")
        .outputMode("update")
        .option("kafka.bootstrap.servers", stage.broker.bootstrap)
        .option("topic", target)
        .option("checkpointLocation", stage.checkpoint())
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)
    written = stage.read(target).selectExpr(
        "from_json(cast(value AS string), 'start STRING, count INT').count AS n"
    )
    return {"records": written.count(), "reports": sum(row.n for row in written.collect())}


def windows() -> Any:
    from pyspark.sql.functions import window

    return window("timestamp", "1 minute")


def again_from_a_checkpoint(stage: Stage) -> object:
    topic, checkpoint = stage.topic(4), stage.name("kept")
    stage.write_numbers(topic, 1000, partitions=4)
    first = stage.drain(stage.stream(topic), checkpoint)
    stage.write_numbers(topic, 300, partitions=4)
    second = stage.drain(stage.stream(topic), checkpoint)
    return {
        "first": first.summary(),
        "second": second.summary(),
        "places": len({*first.all, *second.all}),
    }


def partitions_added_meanwhile(stage: Stage) -> object:
    topic, batches = stage.topic(2), Batches()
    stage.write_numbers(topic, 100, partitions=2)
    frame = stage.stream(topic, kafka__metadata__max__age__ms=1000)
    with stage.running(frame, batches) as query:
        wait_until(lambda: len(batches.all) >= 100, query)
        settle(stage.admin.create_partitions([NewPartitions(topic, 4)]))
        stage.write_numbers(topic, 400, partitions=4)
        wait_until(lambda: len(batches.all) >= 500, query)
    return {**batches.summary(), "partitions": len({it.partition for it in batches.all})}


def continuously(stage: Stage) -> object:
    """Without batches: each record is passed on as it comes."""
    source, target = stage.topic(1), stage.topic(1)
    stage.write_numbers(source, 200)
    query = (
        stage.stream(source)
        .selectExpr("key", "value")
        .writeStream.format("kafka")
        .option("kafka.bootstrap.servers", stage.broker.bootstrap)
        .option("topic", target)
        .option("checkpointLocation", stage.checkpoint())
        .trigger(continuous="1 second")
        .start()
    )
    try:
        wait_until(lambda: stage.read(target).count() >= 200, query)
    finally:
        query.stop()
    return stage.read(target).select("value").distinct().count()


def enough_records_for_a_batch(stage: Stage) -> object:
    """The first batch waits for nothing, the second for 300 records of either topic."""
    stem, batches = stage.name("many"), Batches()
    for name in (f"{stem}-a", f"{stem}-b"):
        stage.create(name)
        stage.write_numbers(name, 100)
    frame = stage.streamer(
        subscribePattern=f"{stem}-.*", startingOffsets="earliest", minOffsetsPerTrigger=300
    ).load()
    with stage.running(frame, batches) as query:
        wait_until(lambda: len(batches.all) >= 200, query)
        stage.write_numbers(f"{stem}-a", 150)
        stage.write_numbers(f"{stem}-b", 150)
        wait_until(lambda: len(batches.all) >= 500, query)
    return batches.sizes


def broken_records_into_another_topic(stage: Stage) -> object:
    source, dead_letters = stage.topic(2), stage.topic(1)
    stage.write_numbers(source, 90, partitions=2)
    producer = stage.producer()
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
        stage.write(broken, dead_letters)

    stage.run_once(stage.stream(source), sort_out)
    letters = stage.read(dead_letters, includeHeaders="true").collect()
    return {
        "clean": len(clean),
        "dead letters": len(letters),
        "headers": sorted({header.key for row in letters for header in row.headers}),
    }
