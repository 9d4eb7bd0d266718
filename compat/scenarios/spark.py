"""Scenarios of Spark's Kafka connector: batches, streams and checkpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from compat.suite.assertions import must_equal
from compat.suite.records import from_line, record, to_line
from compat.suite.scenario import scenario

if TYPE_CHECKING:
    from compat.suite.actor import Actor
    from compat.suite.records import Read
    from compat.suite.scenario_context import ScenarioContext

SECONDS = 300.0
FIRST_MS = 1_700_000_000_000
PARTITIONS = 2


def rows(topic: str, first: int, end: int) -> list[dict[str, object]]:
    """Returns records with keys, headers and timestamps; some have null values."""
    return [
        record(
            topic,
            None if number % 4 == 3 else b"v%d" % number,
            key=b"k%d" % number,
            partition=number % PARTITIONS,
            headers=[("h", b"%d" % number), ("empty", b"")],
            timestamp_ms=FIRST_MS + number,
        )
        for number in range(first, end)
    ]


def fill(context: ScenarioContext, topic: str, first: int, end: int) -> None:
    for row in rows(topic, first, end):
        partition = row["partition"]
        assert isinstance(partition, int)
        context.reference.write(topic, [row], partition=partition)


def content(context: ScenarioContext, topic: str) -> set[tuple[bytes | None, bytes | None, int]]:
    """Returns key, value and number of headers of the records of all partitions."""
    return {
        (it.key, it.value, len(it.headers))
        for partition in range(PARTITIONS)
        for it in context.reference.records(topic, partition)
    }


def batch(client: Actor, topic: str, **options: str) -> list[Read]:
    response = client.do("read_batch", bootstrap=client.bootstrap, topic=topic, options=options)
    return [from_line(it) for it in response["records"]]


@scenario(
    "spark-reads",
    "A batch contains all records with key, headers, timestamp, partition and offset.",
    timeout_seconds=SECONDS,
)
def reads(context: ScenarioContext) -> None:
    topic = context.topic(partitions=PARTITIONS)
    fill(context, topic, 0, 20)
    found = batch(context.client(), topic)
    expected = [
        (partition, it.offset, it.timestamp_ms, it.key, it.value, [*it.headers])
        for partition in range(PARTITIONS)
        for it in context.reference.records(topic, partition)
    ]
    actual = [
        (it.partition, it.offset, it.timestamp_ms, it.key, it.value, [*map(tuple, it.headers)])
        for it in found
    ]
    must_equal(actual, expected, "the rows")


@scenario(
    "spark-reads-from-a-time",
    "A batch that starts at a timestamp contains all later records.",
    timeout_seconds=SECONDS,
)
def reads_from_a_time(context: ScenarioContext) -> None:
    topic = context.topic(partitions=PARTITIONS)
    fill(context, topic, 0, 20)
    found = batch(context.client(), topic, startingTimestamp=str(FIRST_MS + 11))
    must_equal(min(it.timestamp_ms or 0 for it in found), FIRST_MS + 11, "the first time")
    must_equal(len(found), 9, "rows")


@scenario(
    "spark-writes",
    "A batch is written with keys, headers and explicit partitions.",
    timeout_seconds=SECONDS,
)
def writes(context: ScenarioContext) -> None:
    topic = context.topic(partitions=PARTITIONS)
    client = context.client()
    lines = [to_line(it) for it in rows(topic, 0, 20)]
    client.do("write_batch", bootstrap=client.bootstrap, records=lines)
    for partition in range(PARTITIONS):
        found = {it.key for it in context.reference.records(topic, partition)}
        expected = {b"k%d" % number for number in range(partition, 20, PARTITIONS)}
        must_equal(found, expected, f"the keys in partition {partition}")
    must_equal({headers for _, _, headers in content(context, topic)}, {2}, "headers of each")


@scenario(
    "spark-streams",
    "A stream copies existing records, and later new ones.",
    timeout_seconds=SECONDS,
)
def streams(context: ScenarioContext) -> None:
    source = context.topic("source", partitions=PARTITIONS)
    sink = context.topic("sink", partitions=PARTITIONS)
    client = context.client()
    for first, end in ((0, 10), (10, 25), (25, 25)):
        fill(context, source, first, end)
        client.do(
            "stream",
            bootstrap=client.bootstrap,
            source=source,
            sink=sink,
            directory=str(context.scratch() / "checkpoint"),
            options={"startingOffsets": "earliest", "maxOffsetsPerTrigger": "6"},
        )
        must_equal(content(context, sink), content(context, source), "the content of the sink")
        counts = [len(context.reference.records(sink, it)) for it in range(PARTITIONS)]
        must_equal(sum(counts), end, "records in the sink")
