"""Scenarios of batch reads."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

from tests.end_to_end.spark.spark_fixture import phrase_in

if TYPE_CHECKING:
    from tests.end_to_end.spark.spark_fixture import SparkFixture

DEPRECATED_FETCHING = "spark.sql.streaming.kafka.useDeprecatedOffsetFetching"
NO_OFFSET = "No offset matched from request"
UNKNOWN_TOPIC = "UnknownTopicOrPartitionException"


def a_topic(fixture: SparkFixture) -> object:
    rows = fixture.read(fixture.filled())
    positions = rows.select("partition", "offset")
    return {
        "rows": rows.count(),
        "partitions": rows.select("partition").distinct().count(),
        "positions": positions.distinct().count(),
        "offsets": list(positions.agg({"offset": "min"}).first() or ()),
    }


def chosen_partitions_and_offsets(fixture: SparkFixture) -> object:
    topic = fixture.filled()
    rows = fixture.reader(
        assign=json.dumps({topic: [0, 3]}),
        startingOffsets=json.dumps({topic: {"0": 398, "3": -2}}),
        endingOffsets=json.dumps({topic: {"0": -1, "3": 102}}),
    ).load()
    return {row.partition: row["count"] for row in rows.groupBy("partition").count().collect()}


def a_pattern(fixture: SparkFixture) -> object:
    fixture.filled()
    return fixture.reader(subscribePattern="fill.*").load().count()


def deprecated_offset_fetching(fixture: SparkFixture) -> object:
    """Reads like older versions of Spark, which join a consumer group without commits."""
    fixture.spark.conf.set(DEPRECATED_FETCHING, "true")
    try:
        return fixture.read(fixture.filled()).count()
    finally:
        fixture.spark.conf.unset(DEPRECATED_FETCHING)


def split_partitions(fixture: SparkFixture) -> object:
    whole = fixture.read(fixture.filled())
    finer = fixture.read(fixture.filled(), minPartitions=25)
    bounded = fixture.read(fixture.filled(), maxRecordsPerPartition=100)
    return {
        "tasks": whole.rdd.getNumPartitions(),
        "minPartitions=25": finer.rdd.getNumPartitions(),
        "maxRecordsPerPartition=100": bounded.rdd.getNumPartitions(),
        "rows": finer.count(),
    }


def times(fixture: SparkFixture) -> object:
    """Reads from and to timestamps of 17 records, one second apart."""
    topic, since_ms = fixture.topic(), int(time.time() * 1000) - 60_000
    fixture.write_numbers(topic, 17, since_ms=since_ms, step_ms=1000)
    tenth, future = since_ms + 10_000, since_ms + 10_000_000
    per_partition = json.dumps({topic: {"0": tenth}})
    latest = fixture.read(
        topic,
        startingOffsetsByTimestamp=json.dumps({topic: {"0": future}}),
        startingOffsetsByTimestampStrategy="latest",
    )
    return {
        "startingOffsetsByTimestamp": fixture.read(
            topic, startingOffsetsByTimestamp=per_partition
        ).count(),
        "startingTimestamp": fixture.read(topic, startingTimestamp=tenth).count(),
        "endingTimestamp": fixture.read(topic, endingTimestamp=tenth).count(),
        "in the future": error_of(fixture, topic, future),
        "in the future, else the latest": latest.count(),
    }


def error_of(fixture: SparkFixture, topic: str, time_ms: int) -> str:
    try:
        fixture.read(topic, startingTimestamp=time_ms).count()
    except Exception as error:  # noqa: BLE001  # the error is the result
        return phrase_in(error, NO_OFFSET)
    return "none"


def a_missing_topic(fixture: SparkFixture) -> object:
    try:
        fixture.read(fixture.name("nowhere")).count()
    except Exception as error:  # noqa: BLE001  # the error is the result
        return phrase_in(error, UNKNOWN_TOPIC)
    return "none"


def committed_records(fixture: SparkFixture) -> object:
    """Reads six transactions of ten records, three of them aborted."""
    topic = fixture.topic()
    producer = fixture.producer(**{"transactional.id": fixture.name("trips")})
    producer.init_transactions(60)
    for number in range(6):
        producer.begin_transaction()
        for record in range(10):
            producer.produce(topic, f"{number}-{record}", partition=0)
        producer.flush(60)
        producer.abort_transaction(60) if number % 2 else producer.commit_transaction(60)
    committed = {"kafka__isolation__level": "read_committed"}
    rows = fixture.read(topic, **committed).selectExpr("cast(value AS string)").collect()
    return {
        "read_uncommitted": fixture.read(topic).count(),
        "read_committed": len(rows),
        "transactions": sorted({row.value[0] for row in rows}),
        "stream": fixture.drain(fixture.stream(topic, **committed)).summary(),
    }


def an_open_transaction(fixture: SparkFixture) -> object:
    topic = fixture.topic()
    fixture.write_numbers(topic, 5)
    producer = fixture.producer(**{"transactional.id": fixture.name("trip")})
    producer.init_transactions(60)
    producer.begin_transaction()
    for record in range(7):
        producer.produce(topic, f"open-{record}", partition=0)
    producer.flush(60)
    committed = {"kafka__isolation__level": "read_committed"}
    while_open = fixture.read(topic, **committed).count()
    producer.commit_transaction(60)
    return {"while open": while_open, "afterwards": fixture.read(topic, **committed).count()}


def group_names(fixture: SparkFixture) -> object:
    fixed = {"kafka__group__id": fixture.name("fixed")}
    prefixed = {"groupIdPrefix": "depot"}
    topic = fixture.filled()
    return {
        "kafka.group.id": fixture.read(topic, **fixed).count(),
        "groupIdPrefix": fixture.read(topic, **prefixed).count(),
        "stream": fixture.drain(fixture.stream(topic, **fixed)).summary(),
    }
