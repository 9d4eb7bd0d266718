"""Scenarios of MirrorMaker 2: mirrors topics between Apache Kafka and the tested broker."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from compat.apache import ApacheKafka
from compat.apache.apache_kafka import SINGLE_NODE
from compat.suite.actor import until
from compat.suite.assertions import must_equal
from compat.suite.reference_client import ReferenceClient
from compat.suite.scenario import scenario

if TYPE_CHECKING:
    from collections.abc import Iterator

    from compat.suite.actor import Actor
    from compat.suite.reference_client import StoredRecord
    from compat.suite.scenario_context import ScenarioContext

SECONDS = 360.0
MIRRORED_SECONDS = 120.0
HEAP = "256m"
ROWS = [
    {
        "key": b"k%d" % number,
        "value": None if number == 3 else b"v%d" % number,
        "headers": [("h", b"%d" % number)],
        "timestamp_ms": 1_700_000_000_000 + number,
    }
    for number in range(10)
]


@contextmanager
def apache_beside(context: ScenarioContext) -> Iterator[tuple[ApacheKafka, ReferenceClient]]:
    """Starts a second cluster, the other side of the mirror."""
    data = context.scratch() / "there"
    with ApacheKafka(data, settings=SINGLE_NODE, heap=HEAP) as node:
        reference = ReferenceClient("127.0.0.1", node.port)
        try:
            yield node, reference
        finally:
            reference.close()


@scenario(
    "mirror-there-and-back",
    "Records are mirrored from Apache Kafka and to Apache Kafka.",
    timeout_seconds=SECONDS,
)
def there_and_back(context: ScenarioContext) -> None:
    with apache_beside(context) as (node, there):
        theirs, ours = context.name("theirs"), context.name("ours")
        there.create_topic(theirs, 2, {"retention.ms": "-1"})
        context.reference.create_topic(ours, 2, {"retention.ms": "-1"})
        there.write(theirs, ROWS[:6], partition=1)
        context.reference.write(ours, ROWS[:6], partition=1)
        actor = start(context, node, {theirs: "there->here", ours: "here->there"})
        until_mirrored(there, theirs, context.reference, f"there.{theirs}")
        until_mirrored(context.reference, ours, there, f"here.{ours}")
        there.write(theirs, ROWS[6:], partition=1)
        context.reference.write(ours, ROWS[6:], partition=1)
        until_mirrored(there, theirs, context.reference, f"there.{theirs}")
        until_mirrored(context.reference, ours, there, f"here.{ours}")
        must_equal(context.reference.partition_count(f"there.{theirs}"), 2, "partitions here")
        actor.close("mirror")


def start(context: ScenarioContext, node: ApacheKafka, flows: dict[str, str]) -> Actor:
    actor = context.client()
    lines = [
        "clusters = here, there",
        f"here.bootstrap.servers = {actor.bootstrap}",
        f"there.bootstrap.servers = {node.bootstrap}",
        *(f"{flow}.enabled = true\n{flow}.topics = {topic}" for topic, flow in flows.items()),
        *(f"{it}.replication.factor = 1" for it in INTERNAL),
        "replication.factor = 1",
        "refresh.topics.interval.seconds = 1",
        "offset.flush.interval.ms = 500",
    ]
    file = context.scratch() / "mirror.properties"
    file.write_text("\n".join(lines) + "\n")
    actor.do("start_tool", "mirror", tool="mirror-maker", arguments=[str(file)])
    return actor


INTERNAL = (
    "checkpoints.topic",
    "heartbeats.topic",
    "offset-syncs.topic",
    "offset.storage",
    "status.storage",
    "config.storage",
)


def until_mirrored(origin: ReferenceClient, topic: str, mirror: ReferenceClient, name: str) -> None:
    """Waits until each record is mirrored once, with partition, key, value, headers, timestamp."""
    expected = [content(it) for it in origin.records(topic, 1)]

    def is_complete() -> bool:
        return mirror.partition_count(name) > 1 and len(mirror.records(name, 1)) >= len(expected)

    until(is_complete, f"{len(expected)} records of {name}", seconds=MIRRORED_SECONDS)
    must_equal([content(it) for it in mirror.records(name, 1)], expected, f"the records of {name}")
    must_equal(mirror.records(name, 0), [], f"the records of the other partition of {name}")


def content(record: StoredRecord) -> tuple[object, ...]:
    return record.timestamp_ms, record.key, record.value, record.headers
