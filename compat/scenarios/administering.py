"""Scenarios of admin clients: topics, configurations, records and groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from compat.scenarios.consuming import numbered, numbers, topic_with, values
from compat.scenarios.groups import fill, member
from compat.suite.actor import until
from compat.suite.assertions import must, must_equal
from compat.suite.groups import Members
from compat.suite.records import record
from compat.suite.scenario import scenario

if TYPE_CHECKING:
    from compat.suite.actor import Actor
    from compat.suite.scenario_context import ScenarioContext


def administrator(context: ScenarioContext) -> Actor:
    client = context.client()
    client.open_admin()
    return client


def new_topic(name: str, partitions: int = 1, replicas: int = 1, **configs: str) -> dict[str, Any]:
    properties = {key.replace("_", "."): value for key, value in configs.items()}
    return {"name": name, "partitions": partitions, "replicas": replicas, "configs": properties}


def create(client: Actor, *topics: dict[str, Any], validate_only: bool = False) -> None:
    client.do("create_topics", "a", topics=[*topics], validate_only=validate_only)


def configs_of(client: Actor, name: str, kind: str = "topic") -> dict[str, Any]:
    found: dict[str, Any] = client.do("describe_configs", "a", kind=kind, name=name)["configs"]
    return found


# --- topics


@scenario("topic-create", "A new topic has the requested partitions and configuration.", core=True)
def topic_create(context: ScenarioContext) -> None:
    client, name = administrator(context), context.name()
    create(client, new_topic(name, 3, retention_ms="123456"))
    context.reference.until_ready(name, 3)
    must_equal(context.reference.configured(name, "retention.ms"), "123456", "retention.ms")
    client.open_producer()
    client.produce([record(name, partition=2)])
    must_equal(len(context.reference.records(name, 2)), 1, "records in its last partition")


@scenario("topic-create-several", "One request creates several topics.")
def topic_create_several(context: ScenarioContext) -> None:
    client = administrator(context)
    names = [context.name(it) for it in ("one", "two", "three")]
    create(client, *(new_topic(name, number) for number, name in enumerate(names, 1)))
    for number, name in enumerate(names, 1):
        context.reference.until_ready(name, number)


@scenario("topic-validate", "A topic that is only validated is not created.")
def topic_validate(context: ScenarioContext) -> None:
    client, name = administrator(context), context.name()
    create(client, new_topic(name), validate_only=True)
    must_equal(context.reference.partition_count(name), 0, "partitions afterwards")
    create(client, new_topic(name))
    context.reference.until_ready(name, 1)


@scenario("topic-list", "All topics are listed.")
def topic_list(context: ScenarioContext) -> None:
    names = {context.topic(it) for it in ("one", "two")}
    found = administrator(context).do("list_topics", "a")["topics"]
    must(names <= set(found), f"{names} are not all in the list")
    must_equal(len(found), len(set(found)), "different names in the list")


@scenario("topic-describe", "The partitions of a topic are described with leader and replicas.")
def topic_describe(context: ScenarioContext) -> None:
    name = context.topic(partitions=3)
    client = administrator(context)
    nodes = [it["id"] for it in client.do("describe_cluster", "a")["brokers"]]
    (found,) = client.do("describe_topics", "a", topics=[name])["topics"]
    must_equal(found["name"], name, "the name")
    must_equal(sorted(it["partition"] for it in found["partitions"]), [0, 1, 2], "the partitions")
    for it in found["partitions"]:
        must(it["leader"] in nodes, f"unknown leader {it['leader']} of {it['partition']}")
        must(it["leader"] in it["replicas"], "the leader is not in the replicas")
        must_equal(sorted(it["in_sync"]), sorted(it["replicas"]), "replicas in sync")


@scenario("topic-delete", "A deleted topic is gone, and its name can be reused.")
def topic_delete(context: ScenarioContext) -> None:
    name = context.topic(partitions=2)
    fill(context, name, 2, 3)
    client = administrator(context)
    client.do("delete_topics", "a", topics=[name])
    until(lambda: context.reference.partition_count(name) == 0, f"{name} is gone")
    create(client, new_topic(name, 1))
    context.reference.until_ready(name, 1)
    must_equal(context.reference.records(name), [], "records in the new topic of that name")


@scenario("topic-more-partitions", "A topic gets more partitions and keeps its records.")
def topic_more_partitions(context: ScenarioContext) -> None:
    name = topic_with(context, 5)
    client = administrator(context)
    client.do("create_partitions", "a", topic=name, total=4)
    context.reference.until_ready(name, 4)
    client.open_producer()
    client.produce([record(name, b"new", partition=3)])
    must_equal(len(context.reference.records(name, 0)), 5, "records in the first partition")
    must_equal(len(context.reference.records(name, 3)), 1, "records in the last partition")


@scenario(
    "topic-hundreds",
    "Two hundred topics are listed, described and written to.",
    timeout_seconds=120,
)
def topic_hundreds(context: ScenarioContext) -> None:
    names = [context.name(f"many-{number:03}") for number in range(200)]
    context.reference.create_many_topics(names)
    client = administrator(context)
    found = set(client.do("list_topics", "a")["topics"])
    must(found.issuperset(names), f"{len(found & set(names))} of 200 are in the list")
    described = client.do("describe_topics", "a", topics=names)["topics"]
    must_equal(sorted(it["name"] for it in described), names, "topics described")
    client.open_producer()
    client.produce([record(name, partition=0) for name in names[::10]])
    client.open_consumer()
    client.read_from([(name, 0, "beginning") for name in names])
    must_equal(len(client.read(20)), 20, "records read from all of them")


# --- configurations


@scenario("configs-describe", "The configuration of a topic is described, own values and defaults.")
def configs_describe(context: ScenarioContext) -> None:
    name = context.topic(configs={"retention.ms": "123456"})
    found = configs_of(administrator(context), name)
    must_equal(found["retention.ms"]["value"], "123456", "retention.ms")
    must_equal(found["cleanup.policy"]["value"], "delete", "cleanup.policy")
    if found["cleanup.policy"]["is_default"] is not None:
        must_equal(found["cleanup.policy"]["is_default"], True, "cleanup.policy is a default")
        must_equal(found["retention.ms"]["is_default"], False, "retention.ms is a default")


@scenario("configs-alter", "Single values are set and reset without changing others.")
def configs_alter(context: ScenarioContext) -> None:
    name = context.topic(configs={"retention.ms": "123456", "max.message.bytes": "2000000"})
    client = administrator(context)
    change = {"retention.ms": "7890"}
    client.do(
        "alter_configs", "a", kind="topic", name=name, set=change, unset=["max.message.bytes"]
    )
    until(lambda: configs_of(client, name)["retention.ms"]["value"] == "7890", "the new value")
    default = context.reference.configured(context.topic("plain"), "max.message.bytes")
    must_equal(configs_of(client, name)["max.message.bytes"]["value"], default, "the default")


@scenario("configs-replace", "AlterConfigs resets all values that it does not contain.")
def configs_replace(context: ScenarioContext) -> None:
    name = context.topic(configs={"retention.ms": "123456", "max.message.bytes": "2000000"})
    client = administrator(context)
    change = {"retention.ms": "7890"}
    client.do("replace_configs", "a", kind="topic", name=name, set=change)
    until(lambda: configs_of(client, name)["retention.ms"]["value"] == "7890", "the new value")
    default = context.reference.configured(context.topic("plain"), "max.message.bytes")
    must_equal(configs_of(client, name)["max.message.bytes"]["value"], default, "the default")


@scenario("configs-of-broker", "The configuration of a broker is described.")
def configs_of_broker(context: ScenarioContext) -> None:
    client = administrator(context)
    node = client.do("describe_cluster", "a")["brokers"][0]["id"]
    found = configs_of(client, str(node), kind="broker")
    for key in ("log.retention.hours", "num.partitions", "message.max.bytes"):
        must(found.get(key, {}).get("value"), f"{key} is missing")


@scenario("cluster-describe", "Cluster id, controller and nodes are described.")
def cluster_describe(context: ScenarioContext) -> None:
    found = administrator(context).do("describe_cluster", "a")
    must_equal(len(found["brokers"]), len(context.reference.nodes()), "the number of nodes")
    ids = [it["id"] for it in found["brokers"]]
    must(found["controller"] in ids, f"the controller is {found['controller']}, of {ids}")
    must(found["cluster_id"] is None or len(found["cluster_id"]) >= 22, "the cluster's id")


# --- records


@scenario("records-delete", "Deleted records are gone; reading starts after them.")
def records_delete(context: ScenarioContext) -> None:
    name = topic_with(context, 20)
    client = administrator(context)
    response = client.do("delete_records", "a", topic=name, partition=0, before=7)
    must_equal(response["low_watermark"], 7, "the returned low watermark")
    client.open_consumer()
    at = client.do("offsets_at", "c", partitions=[[name, 0]], at="beginning")["offsets"]
    must_equal(at[0]["offset"], 7, "the start offset of the partition")
    client.read_from([(name, 0, "beginning")])
    must_equal(values(client.read(13)), numbers(7, 20), "the values read")


@scenario("records-offsets", "An admin client lists start, end and latest offsets.")
def records_offsets(context: ScenarioContext) -> None:
    name = topic_with(context, 20)
    context.reference.write(name, numbered(name, 1, 5))
    client = administrator(context)
    for at, expected in (
        ("beginning", 0),
        ("end", 21),
        (1_700_000_004_500, 5),
        ("max_timestamp", 19),
    ):
        response = client.do("list_offsets", "a", topic=name, partition=0, at=at)
        must_equal(response["offset"], expected, f"the offset at {at}")


# --- groups


def group_with_offsets(context: ScenarioContext, topic: str, count: int) -> tuple[str, Members]:
    """Returns a group whose only member has read and committed `count` records."""
    group = context.name("group")
    members = Members([member(context, group, [topic])])
    members.until_read(count)
    members.actors[0].do("commit", "c", offsets=None)
    return group, members


def offsets_of(client: Actor, group: str) -> dict[int, int | None]:
    found = client.do("group_offsets", "a", group=group)["offsets"]
    return {it["partition"]: it["offset"] for it in found if it["offset"] is not None}


@scenario("groups-list", "All groups are listed, with and without members.")
def groups_list(context: ScenarioContext) -> None:
    topic = topic_with(context, 5)
    group, members = group_with_offsets(context, topic, 5)
    client = administrator(context)
    must(group in client.do("list_groups", "a")["groups"], "the group is not in the list")
    members.actors[0].close("c")
    must(group in client.do("list_groups", "a")["groups"], "the empty group is not in the list")


@scenario("groups-describe", "State and members of a group are described.")
def groups_describe(context: ScenarioContext) -> None:
    topic = topic_with(context, 5)
    group, members = group_with_offsets(context, topic, 5)
    client = administrator(context)
    found = client.do("describe_group", "a", group=group)
    must_equal(found["state"].lower(), "stable", "the state")
    (group_member,) = found["members"]
    must_equal(
        group_member["client_id"], f"compat-{members.actors[0].name}", "the member's client id"
    )
    if group_member["assignment"] is not None:
        must_equal(group_member["assignment"], [[topic, 0]], "the member's partitions")
    members.actors[0].close("c")
    found = client.do("describe_group", "a", group=group)
    must_equal((found["state"].lower(), found["members"]), ("empty", []), "the group, empty")


@scenario("groups-offsets", "An admin client lists the committed offsets of a group.")
def groups_offsets(context: ScenarioContext) -> None:
    topic = topic_with(context, 5)
    group, _ = group_with_offsets(context, topic, 5)
    must_equal(offsets_of(administrator(context), group), {0: 5}, "the offsets")


@scenario("groups-alter-offsets", "The offsets of an empty group are changed.")
def groups_alter_offsets(context: ScenarioContext) -> None:
    topic = topic_with(context, 5)
    group, members = group_with_offsets(context, topic, 5)
    members.actors[0].close("c")
    client = administrator(context)
    offset_entry = {"topic": topic, "partition": 0, "offset": 2, "metadata": ""}
    client.do("alter_group_offsets", "a", group=group, offsets=[offset_entry])
    must_equal(offsets_of(client, group), {0: 2}, "the offsets")
    again = Members([member(context, group, [topic])])
    again.until_read(3)
    must_equal([it.offset for it in again.read], [2, 3, 4], "the offsets read again")


@scenario("groups-delete-offsets", "The offset of one partition is deleted, another one is kept.")
def groups_delete_offsets(context: ScenarioContext) -> None:
    topic = context.topic(partitions=2)
    fill(context, topic, 2, 3)
    group, members = group_with_offsets(context, topic, 6)
    members.actors[0].close("c")
    client = administrator(context)
    client.do("delete_group_offsets", "a", group=group, partitions=[[topic, 0]])
    must_equal(offsets_of(client, group), {1: 3}, "the offsets")


@scenario("groups-delete", "An empty group is deleted; one with members is not.")
def groups_delete(context: ScenarioContext) -> None:
    topic = topic_with(context, 5)
    group, members = group_with_offsets(context, topic, 5)
    client = administrator(context)
    error = client.refused("delete_group", "a", group=group)
    must_equal(error.code, "NON_EMPTY_GROUP", "the error while there is a member")
    members.actors[0].close("c")
    client.do("delete_group", "a", group=group)
    must(group not in client.do("list_groups", "a")["groups"], "the group is still in the list")


# --- transactions


@scenario("transactions-list", "Transactions are listed and described, open ones with partitions.")
def transactions_list(context: ScenarioContext) -> None:
    topic = context.topic()
    name = context.name("transaction")
    client = administrator(context)
    client.open_producer(transactional_id=name, idempotent=True)
    client.do("begin", "p")
    client.produce([record(topic, partition=0)])
    found = client.do("list_transactions", "a")["transactions"]
    states = {it["transactional_id"]: it["state"] for it in found}
    must_equal(states.get(name, "").upper(), "ONGOING", "the state in the list")
    described = client.do("describe_transaction", "a", transactional_id=name)
    must_equal(described["partitions"], [[topic, 0]], "its partitions")
    client.do("commit_transaction", "p")
