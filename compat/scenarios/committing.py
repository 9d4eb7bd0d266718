"""Scenarios of committed offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from compat.scenarios.consuming import topic_with
from compat.scenarios.groups import fill, member
from compat.suite.assertions import must, must_equal
from compat.suite.groups import Members
from compat.suite.scenario import scenario

if TYPE_CHECKING:
    from compat.suite.actor import Actor
    from compat.suite.scenario_context import ScenarioContext


def commit(
    actor: Actor, topic: str, offset: int, *, partition: int = 0, metadata: str = ""
) -> None:
    offset_entry = {"topic": topic, "partition": partition, "offset": offset, "metadata": metadata}
    actor.do("commit", "c", offsets=[offset_entry])


def committed(actor: Actor, topic: str, *partitions: int) -> list[int | None]:
    response = actor.do("committed", "c", partitions=[[topic, it] for it in partitions])
    return [it["offset"] for it in response["offsets"]]


@scenario("commit-and-resume", "The next member starts after the committed offset.", core=True)
def commit_and_resume(context: ScenarioContext) -> None:
    topic = context.topic(partitions=2)
    group = context.name("group")
    fill(context, topic, 2, 5)
    first = Members([member(context, group, [topic])])
    first.until_read(10)
    first.actors[0].do("commit", "c", offsets=None)
    first.actors[0].close("c")
    fill(context, topic, 2, 3)
    second = Members([member(context, group, [topic])])
    second.until_read(6)
    found = sorted((it.partition, it.offset) for it in second.read)
    must_equal(found, [(p, o) for p in (0, 1) for o in (5, 6, 7)], "offsets of the second member")


@scenario("commit-of-an-offset", "A member resumes at an explicitly committed offset.")
def commit_of_an_offset(context: ScenarioContext) -> None:
    topic = topic_with(context, 20)
    group = context.name("group")
    first = Members([member(context, group, [topic])])
    first.until_read(20)
    commit(first.actors[0], topic, 13)
    first.actors[0].close("c")
    second = Members([member(context, group, [topic])])
    second.until_read(7)
    must_equal([it.offset for it in second.read], [*range(13, 20)], "the offsets read")


@scenario("committed-offsets", "Committed offsets are returned, or none.")
def committed_offsets(context: ScenarioContext) -> None:
    topic = context.topic(partitions=2)
    group = context.name("group")
    fill(context, topic, 2, 5)
    members = Members([member(context, group, [topic])])
    members.until_read(10)
    (actor,) = members.actors
    must_equal(committed(actor, topic, 0, 1), [None, None], "committed at first")
    commit(actor, topic, 3, partition=1)
    must_equal(committed(actor, topic, 0, 1), [None, 3], "committed then")
    commit(actor, topic, 2, partition=1)
    must_equal(committed(actor, topic, 1), [2], "committed after a lower offset")


@scenario("commit-metadata", "Metadata of a committed offset is returned.")
def commit_metadata(context: ScenarioContext) -> None:
    topic = topic_with(context, 5)
    group = context.name("group")
    members = Members([member(context, group, [topic])])
    members.until_read(5)
    (actor,) = members.actors
    commit(actor, topic, 4, metadata="größe: 4")
    offset, stored = context.reference.committed(group, topic)
    stored = (stored or "").rstrip("\0")  # confluent-kafka also sends the terminating null byte
    must_equal((offset, stored), (4, "größe: 4"), "the stored offset and metadata")
    (found,) = actor.do("committed", "c", partitions=[[topic, 0]])["offsets"]
    metadata = found["metadata"]
    must(metadata in (None, "größe: 4"), f"the returned metadata is {metadata!r}")


@scenario("commit-without-members", "A consumer with manual assignment commits for a group.")
def commit_without_members(context: ScenarioContext) -> None:
    topic = topic_with(context, 10)
    group = context.name("group")
    client = context.client()
    client.open_consumer(group=group)
    client.read_from([(topic, 0, "beginning")])
    client.read(10)
    commit(client, topic, 6)
    client.close("c")
    client.open_consumer(group=group)
    client.read_from([(topic, 0, "committed")])
    must_equal(client.read(4)[0].offset, 6, "the first offset read")


@scenario("commit-seek-back", "A member that seeks back reads committed records again.")
def commit_seek_back(context: ScenarioContext) -> None:
    topic = topic_with(context, 10)
    members = Members([member(context, context.name("group"), [topic])])
    members.until_read(10)
    (actor,) = members.actors
    actor.do("commit", "c", offsets=None)
    actor.do("seek", "c", topic=topic, partition=0, offset=4)
    must_equal([it.offset for it in actor.read(6)], [*range(4, 10)], "the offsets read again")
    must_equal(committed(actor, topic, 0), [10], "committed")
