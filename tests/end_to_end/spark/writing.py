"""Scenarios in which Spark writes to topics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.end_to_end.spark.stage import count_when_settled

if TYPE_CHECKING:
    from tests.end_to_end.spark.stage import Stage

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
HEADERS = "array<struct<key:string,value:binary>>"


def a_batch(stage: Stage) -> object:
    topic = stage.topic(10)
    stage.write(stage.numbers(5000), topic)
    rows = stage.read(topic).selectExpr("cast(value AS string)")
    return {"rows": rows.count(), "values": rows.distinct().count()}


def headers_topic_and_partition_columns(stage: Stage) -> object:
    topic = stage.topic(3)
    rows = [
        ("a", b"1", [("route", b"north"), ("empty", None)], topic, 2),
        ("b", b"2", [], topic, 0),
        ("c", None, [("route", b"east"), ("route", b"west")], topic, 1),
    ]
    schema = f"key string, value binary, headers {HEADERS}, topic string, partition int"
    stage.write(stage.spark.createDataFrame(rows, schema))
    read = stage.read(topic, includeHeaders="true").orderBy("key").collect()
    return [
        {
            "key": bytes(row.key).decode(),
            "value": row.value and bytes(row.value).decode(),
            "partition": row.partition,
            "headers": [
                (it.key, it.value and bytes(it.value).decode()) for it in row.headers or []
            ],
        }
        for row in read
    ]


def every_codec(stage: Stage) -> object:
    topic, counts = stage.topic(2), {}
    for codec in CODECS:
        stage.write(stage.numbers(200), topic, kafka__compression__type=codec)
        counts[codec] = stage.read(topic).count()
    return counts


def every_acks(stage: Stage) -> object:
    topic, counts, written = stage.topic(2), {}, 0
    for acks, count in (("0", 500), ("1", 400), ("all", 250)):
        stage.write(
            stage.numbers(count), topic, kafka__acks=acks, kafka__enable__idempotence="false"
        )
        written += count
        counts[acks] = count_when_settled(lambda: stage.read(topic), written)
    return counts


def to_a_missing_topic(stage: Stage) -> object:
    topic = stage.name("made-by-writing")
    stage.write(stage.numbers(10), topic)
    return stage.read(topic).count()
