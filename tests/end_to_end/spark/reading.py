"""Scenarios in which Spark reads a topic once."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

from tests.end_to_end.spark.stage import phrase_in

if TYPE_CHECKING:
    from tests.end_to_end.spark.stage import Stage

DEPRECATED_FETCHING = "spark.sql.streaming.kafka.useDeprecatedOffsetFetching"
NO_OFFSET = "No offset matched from request"
UNKNOWN_TOPIC = "UnknownTopicOrPartitionException"


def a_topic(stage: Stage) -> object:
    rows = stage.read(stage.filled())
    places = rows.select("partition", "offset")
    return {
        "rows": rows.count(),
        "partitions": rows.select("partition").distinct().count(),
        "places": places.distinct().count(),
        "offsets": list(places.agg({"offset": "min"}).first() or ()),
    }


def chosen_partitions_and_offsets(stage: Stage) -> object:
    topic = stage.filled()
    rows = stage.reader(
        assign=json.dumps({topic: [0, 3]}),
        startingOffsets=json.dumps({topic: {"0": 398, "3": -2}}),
        endingOffsets=json.dumps({topic: {"0": -1, "3": 102}}),
    ).load()
    return {row.partition: row["count"] for row in rows.groupBy("partition").count().collect()}


def a_pattern(stage: Stage) -> object:
    stage.filled()
    return stage.reader(subscribePattern="fill.*").load().count()


def deprecated_offset_fetching(stage: Stage) -> object:
    """The way of older Sparks: a consumer group, joined and never committed to."""
    stage.spark.conf.set(DEPRECATED_FETCHING, "true")
    try:
        return stage.read(stage.filled()).count()
    finally:
        stage.spark.conf.unset(DEPRECATED_FETCHING)


def split_partitions(stage: Stage) -> object:
    whole = stage.read(stage.filled())
    finer = stage.read(stage.filled(), minPartitions=25)
    bounded = stage.read(stage.filled(), maxRecordsPerPartition=100)
    return {
        "tasks": whole.rdd.getNumPartitions(),
        "minPartitions=25": finer.rdd.getNumPartitions(),
        "maxRecordsPerPartition=100": bounded.rdd.getNumPartitions(),
        "rows": finer.count(),
    }


def times(stage: Stage) -> object:
    """17 records, a second apart."""
    topic, since_ms = stage.topic(), int(time.time() * 1000) - 60_000
    stage.write_numbers(topic, 17, since_ms=since_ms, step_ms=1000)
    tenth, future = since_ms + 10_000, since_ms + 10_000_000
    per_partition = json.dumps({topic: {"0": tenth}})
    latest = stage.read(
        topic,
        startingOffsetsByTimestamp=json.dumps({topic: {"0": future}}),
        startingOffsetsByTimestampStrategy="latest",
    )
    return {
        "startingOffsetsByTimestamp": stage.read(
            topic, startingOffsetsByTimestamp=per_partition
        ).count(),
        "startingTimestamp": stage.read(topic, startingTimestamp=tenth).count(),
        "endingTimestamp": stage.read(topic, endingTimestamp=tenth).count(),
        "in the future": complaint_about(stage, topic, future),
        "in the future, else the latest": latest.count(),
    }


def complaint_about(stage: Stage, topic: str, time_ms: int) -> str:
    try:
        stage.read(topic, startingTimestamp=time_ms).count()
    except Exception as error:  # noqa: BLE001  # whatever Spark makes of it is the outcome
        return phrase_in(error, NO_OFFSET)
    return "none"


def a_missing_topic(stage: Stage) -> object:
    try:
        stage.read(stage.name("nowhere")).count()
    except Exception as error:  # noqa: BLE001  # whatever Spark makes of it is the outcome
        return phrase_in(error, UNKNOWN_TOPIC)
    return "none"


def committed_records(stage: Stage) -> object:
    """Six transactions of ten records, three of them aborted."""
    topic = stage.topic()
    producer = stage.producer(**{"transactional.id": stage.name("trips")})
    producer.init_transactions(60)
    for number in range(6):
        producer.begin_transaction()
        for record in range(10):
            producer.produce(topic, f"{number}-{record}", partition=0)
        producer.flush(60)
        producer.abort_transaction(60) if number % 2 else producer.commit_transaction(60)
    committed = {"kafka__isolation__level": "read_committed"}
    rows = stage.read(topic, **committed).selectExpr("cast(value AS string)").collect()
    return {
        "read_uncommitted": stage.read(topic).count(),
        "read_committed": len(rows),
        "transactions": sorted({row.value[0] for row in rows}),
        "stream": stage.drain(stage.stream(topic, **committed)).summary(),
    }


def an_open_transaction(stage: Stage) -> object:
    topic = stage.topic()
    stage.write_numbers(topic, 5)
    producer = stage.producer(**{"transactional.id": stage.name("trip")})
    producer.init_transactions(60)
    producer.begin_transaction()
    for record in range(7):
        producer.produce(topic, f"open-{record}", partition=0)
    producer.flush(60)
    committed = {"kafka__isolation__level": "read_committed"}
    while_open = stage.read(topic, **committed).count()
    producer.commit_transaction(60)
    return {"while open": while_open, "afterwards": stage.read(topic, **committed).count()}


def group_names(stage: Stage) -> object:
    fixed = {"kafka__group__id": stage.name("fixed")}
    prefixed = {"groupIdPrefix": "depot"}
    topic = stage.filled()
    return {
        "kafka.group.id": stage.read(topic, **fixed).count(),
        "groupIdPrefix": stage.read(topic, **prefixed).count(),
        "stream": stage.drain(stage.stream(topic, **fixed)).summary(),
    }
