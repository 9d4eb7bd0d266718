"""Scenarios of closed connections, cut frames and broker restarts."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

from compat.scenarios.consuming import numbered, numbers, topic_with, values
from compat.scenarios.groups import fill, member, partitions_of
from compat.suite.assertions import must, must_equal
from compat.suite.groups import Members
from compat.suite.line_process import ClientError
from compat.suite.records import record
from compat.suite.relay import Which
from compat.suite.scenario import Need, scenario
from compat.suite.timeout_factor import scaled
from pykbroker_protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from compat.suite.actor import Actor
    from compat.suite.records import Read
    from compat.suite.scenario_context import ScenarioContext

RESTART = frozenset({Need.RESTART})
RESTART_SECONDS = 200.0


# --- closed connections


@scenario("reconnect-producer", "A producer reconnects and continues.", core=True)
def reconnect_producer(context: ScenarioContext) -> None:
    topic = context.topic()
    client = context.client()
    client.open_producer(idempotent=True)
    for number in range(4):
        client.produce([record(topic, b"%d" % number)])
        context.relay.cut_all()
    found = [it.value for it in context.reference.records(topic)]
    must_equal(found, numbers(0, 4), "the values in the log")


@scenario("reconnect-consumer", "A consumer reconnects and continues at its position.")
def reconnect_consumer(context: ScenarioContext) -> None:
    topic = topic_with(context, 10)
    client = context.client()
    client.open_consumer()
    client.read_from([(topic, 0, "beginning")])
    found = client.read(10)
    context.relay.cut_all()
    context.reference.write(topic, numbered(topic, 5, 10))
    found += read_on(client, 5)
    must_equal(values(found), numbers(0, 15), "the values read")


@scenario("reconnect-group", "A member reconnects and stays in its group.", timeout_seconds=90)
def reconnect_group(context: ScenarioContext) -> None:
    topic = context.topic(partitions=2)
    group = context.name("group")
    members = Members([member(context, group, [topic])])
    members.until_shared(partitions_of(topic, 2))
    context.relay.cut_all()
    fill(context, topic, 2, 5)
    found = read_on(members.actors[0], 10)
    must_equal(len(found), 10, "records read")
    members.actors[0].do("commit", "c", offsets=None)


def read_on(client: Actor, count: int, *, seconds: float = 30.0) -> list[Read]:
    """Polls until `count` records are read. Ignores network errors."""
    found: list[Read] = []
    deadline = time.monotonic() + scaled(seconds)
    while len(found) < count:
        must(time.monotonic() < deadline, f"{len(found)} of {count} records read")
        try:
            found += client.poll().records
        except ClientError as error:
            must(is_network_error(error), f"unexpected error of a poll: {error}")
            time.sleep(0.2)
    return found


def is_network_error(error: ClientError) -> bool:
    return error.code in {"CLIENT", "TIMED_OUT", "NETWORK_EXCEPTION", "REQUEST_TIMED_OUT"} or (
        error.code.startswith(("-", "_", "COORDINATOR_", "NOT_COORDINATOR", "NOT_LEADER"))
    )


# --- connections closed in the middle of a frame


def cut_produce(context: ScenarioContext, *, which: Which, after_bytes: int) -> None:
    topic = context.topic()
    client = context.client()
    client.open_producer(idempotent=True)
    client.produce([record(topic, b"0")])
    context.relay.cut(ApiKey.PRODUCE, which, after_bytes=after_bytes)
    client.produce([record(topic, b"1")])
    client.produce([record(topic, b"2")])
    must_equal(context.relay.cuts_done, 1, "connections cut")
    found = [it.value for it in context.reference.records(topic)]
    must_equal(found, numbers(0, 3), "the values in the log")


for its_name, its_which, its_bytes in (
    ("request", Which.REQUEST, 40),
    ("response", Which.RESPONSE, 0),
    ("half-a-response", Which.RESPONSE, 11),
):
    scenario(
        f"cut-produce-{its_name}",
        f"The connection closes during a Produce ({its_name}); the record is stored once.",
        core=its_name == "half-a-response",
    )(partial(cut_produce, which=its_which, after_bytes=its_bytes))


@scenario(
    "cut-fetch-response", "The connection closes during a Fetch; no record is lost or duplicated."
)
def cut_fetch_response(context: ScenarioContext) -> None:
    topic = context.topic()
    for start in range(0, 100, 10):
        context.reference.write(topic, numbered(topic, 10, start))
    client = context.client()
    client.open_consumer()
    context.relay.cut(ApiKey.FETCH, Which.RESPONSE, after_bytes=150)
    client.read_from([(topic, 0, "beginning")])
    found = read_on(client, 100)
    must_equal(context.relay.cuts_done, 1, "connections cut")
    must_equal(values(found), numbers(0, 100), "the values read")


@scenario(
    "cut-commit-response", "The connection closes during an OffsetCommit; the offset is committed."
)
def cut_commit_response(context: ScenarioContext) -> None:
    topic = topic_with(context, 10)
    group = context.name("group")
    members = Members([member(context, group, [topic])])
    members.until_read(10)
    (actor,) = members.actors
    context.relay.cut(ApiKey.OFFSET_COMMIT, Which.RESPONSE, after_bytes=6)
    offset_entry = {"topic": topic, "partition": 0, "offset": 7, "metadata": ""}
    try:
        actor.do("commit", "c", offsets=[offset_entry])
    except ClientError as error:
        must(is_network_error(error), f"unexpected error of the commit: {error}")
    must_equal(context.relay.cuts_done, 1, "connections cut")
    response = actor.do("committed", "c", partitions=[[topic, 0]])
    must_equal([it["offset"] for it in response["offsets"]], [7], "the offset committed")


# --- broker restarts


@scenario(
    "restart-producer",
    "A producer continues after a restart; acknowledged records are stored.",
    needs=RESTART,
)
def restart_producer(context: ScenarioContext) -> None:
    topic = context.topic(partitions=2)
    client = context.client()
    client.open_producer(idempotent=True, delivery_timeout_ms=30_000)
    client.produce([record(topic, b"%d" % number, partition=0) for number in range(10)])
    context.restart(topic, partitions=2)
    client.produce([record(topic, b"%d" % number, partition=0) for number in range(10, 20)])
    found = [it.value for it in context.reference.records(topic)]
    must_equal(found, numbers(0, 20), "the values in the log")


@scenario(
    "restart-consumer",
    "A consumer continues after a restart.",
    needs=RESTART,
    timeout_seconds=RESTART_SECONDS,
)
def restart_consumer(context: ScenarioContext) -> None:
    topic = topic_with(context, 10)
    client = context.client()
    client.open_consumer()
    client.read_from([(topic, 0, "beginning")])
    found = client.read(10)
    context.restart(topic)
    context.reference.write(topic, numbered(topic, 5, 10))
    found += read_on(client, 5)
    must_equal(values(found), numbers(0, 15), "the values read")


@scenario(
    "restart-group",
    "A group continues after a restart, with its offsets and members.",
    needs=RESTART,
    timeout_seconds=RESTART_SECONDS,
)
def restart_group(context: ScenarioContext) -> None:
    topic = context.topic(partitions=2)
    fill(context, topic, 2, 5)
    group = context.name("group")
    members = Members([member(context, group, [topic])])
    members.until_read(10)
    (actor,) = members.actors
    actor.do("commit", "c", offsets=None)
    context.restart(topic, partitions=2)
    fill(context, topic, 2, 5)
    found = read_on(actor, 10, seconds=60)
    must_equal(sorted({it.offset for it in found}), [*range(5, 10)], "the offsets read afterwards")


@scenario(
    "restart-transaction",
    "A transaction that is open during a restart commits completely.",
    needs=RESTART,
    timeout_seconds=RESTART_SECONDS,
)
def restart_transaction(context: ScenarioContext) -> None:
    topic = context.topic()
    client = context.client()
    client.open_producer(transactional_id=context.name("transaction"), idempotent=True)
    client.do("begin", "p")
    client.produce([record(topic, value, partition=0) for value in numbers(0, 3)])
    context.restart(topic)
    client.produce([record(topic, value, partition=0) for value in numbers(3, 6)])
    client.do("commit_transaction", "p")
    client.open_consumer(isolation="read_committed")
    client.read_from([(topic, 0, "beginning")])
    must_equal(values(read_on(client, 6)), numbers(0, 6), "the values read")
