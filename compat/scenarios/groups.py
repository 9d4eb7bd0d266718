"""Scenarios of consumer groups: assignment, joins, leaves, crashes and static members."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any

from compat.scenarios.consuming import numbered
from compat.suite.assertions import must, must_equal
from compat.suite.groups import Members
from compat.suite.line_process import ClientError
from compat.suite.scenario import scenario

if TYPE_CHECKING:
    from compat.suite.actor import Actor, PartitionKey
    from compat.suite.scenario_context import ScenarioContext

CLASSIC_ASSIGNORS = ("range", "roundrobin", "sticky", "cooperative-sticky")
CONSUMER_ASSIGNORS = ("uniform", "range")
FENCED = {
    "FENCED_INSTANCE_ID",
    "UNKNOWN_MEMBER_ID",
    "UNRELEASED_INSTANCE_ID",
    "COMMIT_FAILED",
    "_FATAL",  # librdkafka; its text contains the reason
}


def member(context: ScenarioContext, group: str, topics: list[str], **options: Any) -> Actor:
    actor = context.client()
    actor.open_consumer(group=group, **options)
    actor.do("subscribe", "c", topics=topics)
    return actor


def partitions_of(topic: str, count: int) -> list[PartitionKey]:
    return [(topic, partition) for partition in range(count)]


def fill(context: ScenarioContext, topic: str, partitions: int, count: int) -> None:
    """Writes `count` records to each partition."""
    for partition in range(partitions):
        context.reference.write(topic, numbered(topic, count), partition=partition)


def each_once(members: Members, count: int) -> None:
    read = sorted((it.topic, it.partition, it.offset) for it in members.read)
    must_equal(len(read), count, "records read")
    must_equal(len(set(read)), count, "different records read")


@scenario("group-of-one", "The only member of a group reads every partition.", core=True)
def group_of_one(context: ScenarioContext) -> None:
    topic = context.topic(partitions=3)
    fill(context, topic, 3, 4)
    members = Members([member(context, context.name("group"), [topic])])
    members.until_read(12)
    each_once(members, 12)
    must_equal(members.owned[0], frozenset(partitions_of(topic, 3)), "the assignment of the member")


def group_shares(context: ScenarioContext, *, protocol: str, assignor: str) -> None:
    topic = context.topic(partitions=4)
    group = context.name("group")
    options = {"protocol": protocol, "assignor": assignor}
    members = Members([member(context, group, [topic], **options) for _ in range(2)])
    members.until_shared(partitions_of(topic, 4))
    fill(context, topic, 4, 5)
    members.until_read(20)
    each_once(members, 20)


for its_assignor in CLASSIC_ASSIGNORS:
    scenario(
        f"group-shares-{its_assignor}",
        f"Two members share four partitions with the assignor {its_assignor}.",
        core=its_assignor == "range",
        timeout_seconds=90,
    )(partial(group_shares, protocol="classic", assignor=its_assignor))
for its_assignor in CONSUMER_ASSIGNORS:
    scenario(
        f"group-shares-consumer-{its_assignor}",
        f"With KIP-848, two members share four partitions with the assignor {its_assignor}.",
        timeout_seconds=90,
    )(partial(group_shares, protocol="consumer", assignor=its_assignor))


@scenario("group-of-two-topics", "A group with two topics reads both.")
def group_of_two_topics(context: ScenarioContext) -> None:
    topics = [context.topic("one", partitions=2), context.topic("two", partitions=2)]
    for topic in topics:
        fill(context, topic, 2, 3)
    members = Members([member(context, context.name("group"), topics)])
    members.until_read(12)
    each_once(members, 12)


@scenario(
    "group-more-members-than-partitions",
    "A third member of two partitions takes over when one leaves.",
    timeout_seconds=120,
)
def group_more_members_than_partitions(context: ScenarioContext) -> None:
    topic = context.topic(partitions=2)
    group = context.name("group")
    members = Members([member(context, group, [topic]) for _ in range(3)])
    members.until_shared(partitions_of(topic, 2))
    must_equal(sorted(map(len, members.owned)), [0, 1, 1], "partitions of each member")
    owners = [it for it, owned in zip(members.actors, members.owned, strict=True) if owned]
    owners[0].close("c")
    members.actors.remove(owners[0])
    members.until_shared(partitions_of(topic, 2))


@scenario(
    "group-member-dies",
    "The partitions of a dead member are assigned to the other one.",
    timeout_seconds=90,
)
def group_member_dies(context: ScenarioContext) -> None:
    topic = context.topic(partitions=2)
    group = context.name("group")
    members = Members([member(context, group, [topic]) for _ in range(2)])
    members.until_shared(partitions_of(topic, 2))
    context.kill(members.actors.pop())
    members.until_shared(partitions_of(topic, 2))
    fill(context, topic, 2, 3)
    members.until_read(6)
    each_once(members, 6)


@scenario(
    "group-member-joins-later",
    "A later member gets partitions of an earlier one.",
    timeout_seconds=90,
)
def group_member_joins_later(context: ScenarioContext) -> None:
    topic = context.topic(partitions=4)
    group = context.name("group")
    members = Members([member(context, group, [topic])])
    members.until_shared(partitions_of(topic, 4))
    members.actors.append(member(context, group, [topic]))
    members.until_shared(partitions_of(topic, 4))
    fill(context, topic, 4, 2)
    members.until_read(8)
    each_once(members, 8)


@scenario(
    "group-static-member-returns",
    "A restarted static member keeps its partitions, and so do others.",
    timeout_seconds=90,
)
def group_static_member_returns(context: ScenarioContext) -> None:
    topic = context.topic(partitions=4)
    group = context.name("group")
    long_session = {"session_timeout_ms": 20_000}
    members = Members(
        [member(context, group, [topic], instance_id=it, **long_session) for it in ("one", "two")]
    )
    members.until_shared(partitions_of(topic, 4))
    before = list(members.owned)
    context.kill(members.actors.pop())
    members.actors.append(member(context, group, [topic], instance_id="two", **long_session))
    members.until_shared(partitions_of(topic, 4))
    must_equal(members.owned, before, "the assignments")


@scenario(
    "group-static-member-fenced",
    "Of two static members with the same instance id, the older one is fenced.",
    timeout_seconds=90,
)
def group_static_member_fenced(context: ScenarioContext) -> None:
    topic = context.topic(partitions=2)
    group = context.name("group")
    first = member(context, group, [topic], instance_id="same")
    fill(context, topic, 2, 3)
    Members([first]).until_read(6)
    second = Members([member(context, group, [topic], instance_id="same")])
    second.until_shared(partitions_of(topic, 2))
    code = fencing_error(first)
    must(code in FENCED, f"the error was {code}")


def fencing_error(actor: Actor) -> str:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            actor.poll()
            actor.do("commit", "c", offsets=None)
        except ClientError as error:
            return error.code
    return "none"


@scenario("two-groups", "Two groups read all records independently.", core=True)
def two_groups(context: ScenarioContext) -> None:
    topic = context.topic(partitions=2)
    fill(context, topic, 2, 5)
    one, two = (Members([member(context, context.name(it), [topic])]) for it in ("one", "two"))
    one.until_read(10)
    one.actors[0].do("commit", "c", offsets=None)
    two.until_read(10)
    each_once(one, 10)
    each_once(two, 10)
