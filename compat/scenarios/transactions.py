"""Scenarios of transactions."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any

from compat.scenarios.consuming import numbers, topic_with, values
from compat.scenarios.groups import member
from compat.suite.actor import until
from compat.suite.assertions import ScenarioFailedError, must, must_equal
from compat.suite.groups import Members
from compat.suite.line_process import ClientError
from compat.suite.records import record
from compat.suite.scenario import scenario

if TYPE_CHECKING:
    from compat.suite.actor import Actor
    from compat.suite.records import Read
    from compat.suite.scenario_context import ScenarioContext

FENCED = {"PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH", "FENCED"}


def transactional(context: ScenarioContext, name: str = "transaction", **options: Any) -> Actor:
    client = context.client()
    client.open_producer(transactional_id=context.name(name), idempotent=True, **options)
    return client


def rows(topic: str, first: int, end: int) -> list[dict[str, Any]]:
    return [record(topic, value, partition=0) for value in numbers(first, end)]


def reader(context: ScenarioContext, topic: str, isolation: str, *, partitions: int = 1) -> Actor:
    client = context.client()
    client.open_consumer(isolation=isolation)
    client.read_from([(topic, partition, "beginning") for partition in range(partitions)])
    return client


def must_read_nothing(client: Actor, what: str, *, polls: int = 3) -> None:
    found: list[Read] = []
    for _ in range(polls):
        found += client.poll(timeout_ms=700).records
    must_equal(values(found), [], what)


@scenario("transaction-commits", "Committed records are visible to all consumers.", core=True)
def transaction_commits(context: ScenarioContext) -> None:
    topic = context.topic()
    client = transactional(context)
    for start in (0, 5):
        client.do("begin", "p")
        client.produce(rows(topic, start, start + 5))
        client.do("commit_transaction", "p")
    for isolation in ("read_uncommitted", "read_committed"):
        found = reader(context, topic, isolation).read(10)
        must_equal(values(found), numbers(0, 10), f"the values read, {isolation}")


@scenario(
    "transaction-aborts", "Aborted records are invisible to read_committed consumers.", core=True
)
def transaction_aborts(context: ScenarioContext) -> None:
    topic = context.topic()
    client = transactional(context)
    for start, end in ((0, "commit"), (5, "abort"), (10, "commit"), (15, "abort")):
        client.do("begin", "p")
        client.produce(rows(topic, start, start + 5))
        client.do(f"{end}_transaction", "p")
    expected = [*numbers(0, 5), *numbers(10, 15)]
    committed = reader(context, topic, "read_committed")
    must_equal(values(committed.read(10)), expected, "the values read, read_committed")
    must_read_nothing(committed, "values after the committed ones")
    found = reader(context, topic, "read_uncommitted").read(20)
    must_equal(values(found), numbers(0, 20), "the values read, read_uncommitted")


@scenario("transaction-open", "An open transaction also holds back the records after it.")
def transaction_open(context: ScenarioContext) -> None:
    topic = context.topic()
    client = transactional(context)
    client.do("begin", "p")
    client.produce(rows(topic, 0, 3))
    context.reference.write(topic, rows(topic, 3, 5))
    committed = reader(context, topic, "read_committed")
    must_read_nothing(committed, "values read from an open transaction")
    client.do("commit_transaction", "p")
    must_equal(values(committed.read(5)), numbers(0, 5), "the values read afterwards")


@scenario(
    "transaction-over-partitions", "Records in several partitions and topics commit atomically."
)
def transaction_over_partitions(context: ScenarioContext) -> None:
    topics = [context.topic("one", partitions=3), context.topic("two", partitions=3)]
    client = transactional(context)
    for end in ("abort", "commit"):
        client.do("begin", "p")
        value = end.encode()
        client.produce([record(it, value, partition=p) for it in topics for p in range(3)])
        client.do(f"{end}_transaction", "p")
    for topic in topics:
        found = reader(context, topic, "read_committed", partitions=3).read(3)
        must_equal(values(found), [b"commit"] * 3, "the values read")


@scenario("transaction-of-nothing", "A transaction without records commits and aborts.")
def transaction_of_nothing(context: ScenarioContext) -> None:
    topic = context.topic()
    client = transactional(context)
    for end in ("commit", "abort"):
        client.do("begin", "p")
        client.do(f"{end}_transaction", "p")
    client.do("begin", "p")
    client.produce(rows(topic, 0, 1))
    client.do("commit_transaction", "p")
    must_equal(values(reader(context, topic, "read_committed").read(1)), numbers(0, 1), "values")


@scenario(
    "transaction-fences", "A second producer with the same transactional id fences the first."
)
def transaction_fences(context: ScenarioContext) -> None:
    topic = context.topic()
    first, second = transactional(context), None
    first.do("begin", "p")
    first.produce(rows(topic, 0, 3))
    second = transactional(context)
    second.do("begin", "p")
    second.produce(rows(topic, 3, 6))
    second.do("commit_transaction", "p")
    code = fencing_error(first, topic)
    must(code in FENCED, f"the error of the first producer was {code}")
    found = reader(context, topic, "read_committed").read(3)
    must_equal(values(found), numbers(3, 6), "the values read")


def fencing_error(client: Actor, topic: str) -> str:
    """Returns the error code of a fenced producer."""
    for action in (
        lambda: client.produce(rows(topic, 90, 91)),
        lambda: client.do("commit_transaction", "p"),
    ):
        try:
            action()
        except ClientError as error:
            return error.code
    raise ScenarioFailedError("the first producer got no error")


@scenario(
    "transaction-times-out",
    "The broker aborts a transaction after its timeout.",
    timeout_seconds=90,
)
def transaction_times_out(context: ScenarioContext) -> None:
    topic = context.topic()
    client = transactional(context, transaction_timeout_ms=3_000)
    client.do("begin", "p")
    client.produce(rows(topic, 0, 3))
    context.kill(client)
    context.reference.write(topic, rows(topic, 3, 5))
    found: list[Read] = []
    committed = reader(context, topic, "read_committed")
    deadline = time.monotonic() + 40
    while len(found) < 2 and time.monotonic() < deadline:
        found += committed.poll().records
    must_equal(values(found), numbers(3, 5), "the values read in the end")


@scenario("transaction-with-offsets", "Offsets take effect when their transaction commits.")
def transaction_with_offsets(context: ScenarioContext) -> None:
    source, sink = topic_with(context, 10), context.topic("sink")
    group = context.name("group")
    client = context.client()
    client.open_consumer(group=group, isolation="read_committed")
    client.do("subscribe", "c", topics=[source])
    members = Members([client])
    members.until_read(10)
    client.open_producer(transactional_id=context.name("transaction"), idempotent=True)
    for end, offset, expected in (("abort", 4, None), ("commit", 6, 6)):
        client.do("begin", "p")
        client.produce(rows(sink, 0, 1))
        offset_entry = {"topic": source, "partition": 0, "offset": offset, "metadata": ""}
        client.do("send_offsets", "p", consumer="c", offsets=[offset_entry])
        client.do(f"{end}_transaction", "p")
        is_expected = partial(is_committed, client, source, expected)
        until(is_expected, f"the committed offset is {expected} after the {end}")


def is_committed(client: Actor, topic: str, expected: int | None) -> bool:
    """Markers are written after the response; clients without KIP-447 do not wait for them."""
    (found,) = client.do("committed", "c", partitions=[[topic, 0]])["offsets"]
    return bool(found["offset"] == expected)


@scenario(
    "transaction-relays-once",
    "Consume, transform and produce in transactions: each record is written once.",
    timeout_seconds=90,
)
def transaction_relays_once(context: ScenarioContext) -> None:
    source, sink = topic_with(context, 30), context.topic("sink")
    group = context.name("group")
    relay(context, source, sink, group, batch=7, end="abort")
    relay(context, source, sink, group, batch=12, end="commit")
    relay(context, source, sink, group, batch=18, end="commit")
    found = reader(context, sink, "read_committed").read(30)
    must_equal(values(found), numbers(0, 30), "what arrived")


def relay(
    context: ScenarioContext, source: str, sink: str, group: str, *, batch: int, end: str
) -> None:
    """A member reads `batch` records and writes them to the sink in one transaction."""
    client = member(context, group, [source], isolation="read_committed")
    found: list[Read] = []
    while len(found) < batch:
        found += client.poll().records
        must(context.seconds_left() > 0, f"{len(found)} of {batch} records were read")
    client.open_producer(transactional_id=context.name("relay"), idempotent=True)
    client.do("begin", "p")
    client.produce([record(sink, it.value, partition=0) for it in found[:batch]])
    offset = found[batch - 1].offset + 1
    offset_entry = {"topic": source, "partition": 0, "offset": offset, "metadata": ""}
    client.do("send_offsets", "p", consumer="c", offsets=[offset_entry])
    client.do(f"{end}_transaction", "p")
    client.close("p")
    client.close("c")
