"""Scenarios of writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.end_to_end.spark.spark_fixture import count_when_settled

if TYPE_CHECKING:
    from tests.end_to_end.spark.spark_fixture import SparkFixture

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
HEADERS = "array<struct<key:string,value:binary>>"


def a_batch(fixture: SparkFixture) -> object:
    topic = fixture.topic(10)
    fixture.write(fixture.numbers(5000), topic)
    rows = fixture.read(topic).selectExpr("cast(value AS string)")
    return {"rows": rows.count(), "values": rows.distinct().count()}


def headers_topic_and_partition_columns(fixture: SparkFixture) -> object:
    topic = fixture.topic(3)
    rows = [
        ("a", b"1", [("route", b"north"), ("empty", None)], topic, 2),
        ("b", b"2", [], topic, 0),
        ("c", None, [("route", b"east"), ("route", b"west")], topic, 1),
    ]
    schema = f"key string, value binary, headers {HEADERS}, topic string, partition int"
    fixture.write(fixture.spark.createDataFrame(rows, schema))
    read = fixture.read(topic, includeHeaders="true").orderBy("key").collect()
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


def every_codec(fixture: SparkFixture) -> object:
    topic, counts = fixture.topic(2), {}
    for codec in CODECS:
        fixture.write(fixture.numbers(200), topic, kafka__compression__type=codec)
        counts[codec] = fixture.read(topic).count()
    return counts


def every_acks(fixture: SparkFixture) -> object:
    topic, counts, written = fixture.topic(2), {}, 0
    for acks, count in (("0", 500), ("1", 400), ("all", 250)):
        fixture.write(
            fixture.numbers(count), topic, kafka__acks=acks, kafka__enable__idempotence="false"
        )
        written += count
        counts[acks] = count_when_settled(lambda: fixture.read(topic), written)
    return counts


def to_a_missing_topic(fixture: SparkFixture) -> object:
    topic = fixture.name("made-by-writing")
    fixture.write(fixture.numbers(10), topic)
    return fixture.read(topic).count()
