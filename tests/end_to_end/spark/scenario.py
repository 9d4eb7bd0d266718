"""All Spark scenarios with their results on Apache Kafka."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.end_to_end.spark import failures, reading, streaming, writing

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.end_to_end.spark.spark_fixture import SparkFixture


@dataclass(frozen=True, slots=True)
class Scenario:
    """A use of Spark; those with `is_quick` run in every check."""

    name: str
    act: Callable[[SparkFixture], object]
    expected: object
    is_quick: bool = False


def rows(count: int) -> dict[str, int]:
    return {"rows": count, "positions": count}


NO_LAG = {
    "avgOffsetsBehindLatest": "0.0",
    "maxOffsetsBehindLatest": "0",
    "minOffsetsBehindLatest": "0",
}

SCENARIOS = (
    Scenario("write a batch", writing.a_batch, {"rows": 5000, "values": 5000}, is_quick=True),
    Scenario(
        "read a topic",
        reading.a_topic,
        {"rows": 5000, "partitions": 10, "positions": 5000, "offsets": [0]},
        is_quick=True,
    ),
    Scenario(
        "read chosen partitions and offsets",
        reading.chosen_partitions_and_offsets,
        {0: 102, 3: 102},
        is_quick=True,
    ),
    Scenario("read a pattern of topics", reading.a_pattern, 5000),
    Scenario(
        "read with deprecated offset fetching",
        reading.deprecated_offset_fetching,
        5000,
        is_quick=True,
    ),
    Scenario(
        "write headers, topic and partition from columns",
        writing.headers_topic_and_partition_columns,
        [
            {
                "key": "a",
                "value": "1",
                "partition": 2,
                "headers": [("route", "north"), ("empty", None)],
            },
            {"key": "b", "value": "2", "partition": 0, "headers": []},
            {
                "key": "c",
                "value": None,
                "partition": 1,
                "headers": [("route", "east"), ("route", "west")],
            },
        ],
        is_quick=True,
    ),
    Scenario(
        "read with more tasks than partitions",
        reading.split_partitions,
        {
            "tasks": 10,
            "minPartitions=25": 30,
            "maxRecordsPerPartition=100": 10,  # Spark 4.0 ignores it in batches
            "rows": 5000,
        },
    ),
    Scenario(
        "read from and to a time",
        reading.times,
        {
            "startingOffsetsByTimestamp": 7,
            "startingTimestamp": 7,
            "endingTimestamp": 10,
            "in the future": reading.NO_OFFSET,
            "in the future, else the latest": 0,
        },
        is_quick=True,
    ),
    Scenario(
        "stream all records in bounded batches",
        streaming.all_records_in_bounded_batches,
        {**rows(5000), "batches": [2000, 2000, 1000], "lag": NO_LAG},
        is_quick=True,
    ),
    Scenario("stream while records are written", streaming.while_writing, rows(5500)),
    Scenario(
        "stream windows into a topic",
        streaming.windows_into_a_topic,
        {"records": 200, "reports": 2000},
    ),
    Scenario(
        "write with every codec",
        writing.every_codec,
        {"none": 200, "gzip": 400, "snappy": 600, "lz4": 800, "zstd": 1000},
    ),
    Scenario("write with every acks", writing.every_acks, {"0": 500, "1": 900, "all": 1150}),
    Scenario("write to a missing topic", writing.to_a_missing_topic, 10, is_quick=True),
    Scenario("read a missing topic", reading.a_missing_topic, reading.UNKNOWN_TOPIC, is_quick=True),
    Scenario(
        "continue a stream from a checkpoint",
        streaming.continued_from_a_checkpoint,
        {"first": rows(1000), "second": rows(300), "positions": 1300},
        is_quick=True,
    ),
    Scenario(
        "read committed records",
        reading.committed_records,
        {
            "read_uncommitted": 60,
            "read_committed": 30,
            "transactions": ["0", "2", "4"],
            "stream": rows(30),
        },
        is_quick=True,
    ),
    Scenario(
        "read during an open transaction",
        reading.an_open_transaction,
        {"while open": 5, "afterwards": 12},
        is_quick=True,
    ),
    Scenario(
        "continue a stream after unread records were deleted",
        failures.deleted_unread_records,
        {"failOnDataLoss=true": failures.MAY_BE_LOST, "failOnDataLoss=false": rows(10)},
        is_quick=True,
    ),
    Scenario(
        "continue a stream from a recreated topic",
        failures.a_recreated_topic,
        {"failOnDataLoss=true": failures.WENT_BACK, "failOnDataLoss=false": rows(0)},
    ),
    Scenario(
        "stream while partitions are added",
        streaming.added_partitions,
        {**rows(500), "partitions": 4},
    ),
    Scenario(
        "read with a custom group id",
        reading.group_names,
        {"kafka.group.id": 5000, "groupIdPrefix": 5000, "stream": rows(5000)},
    ),
    Scenario("stream continuously", streaming.continuously, 200),
    Scenario("stream with minOffsetsPerTrigger", streaming.minimum_records_of_a_batch, [200, 300]),
    Scenario(
        "stream invalid records into another topic",
        streaming.invalid_records_into_another_topic,
        {"clean": 90, "dead letters": 10, "headers": ["offset"]},
    ),
    Scenario(
        "stream over a restart of the broker",
        failures.a_restart,
        {**rows(1000), "the query is active": True},
    ),
    Scenario(
        "stream over a kill of the broker",
        failures.a_kill,
        {**rows(1000), "the query is active": True},
        is_quick=True,
    ),
)
