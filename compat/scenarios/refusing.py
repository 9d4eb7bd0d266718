"""Scenarios of rejected requests: the client reports the broker's error code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from compat.scenarios.administering import administrator, create, new_topic
from compat.scenarios.consuming import topic_with
from compat.suite.assertions import must, must_equal
from compat.suite.line_process import ClientError
from compat.suite.records import record
from compat.suite.scenario import scenario

if TYPE_CHECKING:
    from compat.suite.actor import Actor
    from compat.suite.scenario_context import ScenarioContext


def refused_topic(context: ScenarioContext, code: str, **changes: object) -> None:
    client = administrator(context)
    expected = new_topic(context.name()) | changes
    error = client.refused("create_topics", "a", topics=[expected], validate_only=False)
    must_equal(error.code, code, "the error")


@scenario("error-topic-exists", "The topic exists.", core=True)
def topic_exists(context: ScenarioContext) -> None:
    refused_topic(context, "TOPIC_ALREADY_EXISTS", name=context.topic())


@scenario("error-topic-name", "The topic name is invalid.")
def topic_name(context: ScenarioContext) -> None:
    refused_topic(context, "INVALID_TOPIC_EXCEPTION", name="no spaces in names")


@scenario("error-topic-partitions", "The number of partitions is zero.")
def topic_partitions(context: ScenarioContext) -> None:
    refused_topic(context, "INVALID_PARTITIONS", partitions=0)


@scenario("error-topic-replicas", "The replication factor exceeds the number of brokers.")
def topic_replicas(context: ScenarioContext) -> None:
    refused_topic(context, "INVALID_REPLICATION_FACTOR", replicas=99)


@scenario("error-topic-config", "The value of a property is invalid.")
def topic_config(context: ScenarioContext) -> None:
    refused_topic(context, "INVALID_CONFIG", configs={"retention.ms": "soon"})


@scenario("error-topic-unknown", "The topic to delete does not exist.", core=True)
def topic_unknown(context: ScenarioContext) -> None:
    client = administrator(context)
    error = client.refused("delete_topics", "a", topics=[context.name("missing")])
    must_equal(error.code, "UNKNOWN_TOPIC_OR_PARTITION", "the error")


@scenario("error-fewer-partitions", "The number of partitions would decrease.")
def fewer_partitions(context: ScenarioContext) -> None:
    client, name = administrator(context), context.topic(partitions=3)
    error = client.refused("create_partitions", "a", topic=name, total=2)
    must_equal(error.code, "INVALID_PARTITIONS", "the error")


@scenario("error-alter-config", "The new value of a property is invalid.")
def alter_config(context: ScenarioContext) -> None:
    client, name = administrator(context), context.topic()
    wrong = {"retention.ms": "soon"}
    error = client.refused("alter_configs", "a", kind="topic", name=name, set=wrong)
    must_equal(error.code, "INVALID_CONFIG", "the error")


@scenario("error-delete-records", "The offset to delete up to is out of range.")
def delete_records(context: ScenarioContext) -> None:
    client, name = administrator(context), topic_with(context, 5)
    error = client.refused("delete_records", "a", topic=name, partition=0, before=99)
    must_equal(error.code, "OFFSET_OUT_OF_RANGE", "the error")


@scenario("error-group-unknown", "The group to delete does not exist.")
def group_unknown(context: ScenarioContext) -> None:
    client = administrator(context)
    error = client.refused("delete_group", "a", group=context.name("missing"))
    must_equal(error.code, "GROUP_ID_NOT_FOUND", "the error")


@scenario("error-too-large", "A record above the size limit is rejected, the next one is accepted.")
def too_large(context: ScenarioContext) -> None:
    topic = context.topic(configs={"max.message.bytes": "20000"})
    client = context.client()
    client.open_producer()
    code = refused_record(client, record(topic, bytes(50_000)))
    must(code in {"MESSAGE_TOO_LARGE", "RECORD_LIST_TOO_LARGE"}, f"the error was {code}")
    client.produce([record(topic, b"small")])
    must_equal([it.value for it in context.reference.records(topic)], [b"small"], "the log")


@scenario("error-no-key", "A compacted topic rejects records without a key.")
def no_key(context: ScenarioContext) -> None:
    topic = context.topic(configs={"cleanup.policy": "compact"})
    client = context.client()
    client.open_producer()
    must_equal(refused_record(client, record(topic, b"v")), "INVALID_RECORD", "the error")
    client.produce([record(topic, b"v", key=b"k")])
    must_equal(len(context.reference.records(topic)), 1, "records in the log")


@scenario("error-unknown-partition", "The partition does not exist.")
def unknown_partition(context: ScenarioContext) -> None:
    topic = context.topic(partitions=2)
    client = context.client()
    client.open_producer(delivery_timeout_ms=4_000, request_timeout_ms=3_000)
    refused_record(client, record(topic, partition=17))
    counts = [len(context.reference.records(topic, it)) for it in range(2)]
    must_equal(counts, [0, 0], "records in each partition")


@scenario("error-validate-topic", "An invalid topic is rejected when it is validated.")
def validate_topic(context: ScenarioContext) -> None:
    client = administrator(context)
    create(client, new_topic(context.name()), validate_only=True)
    wrong = new_topic(context.name(), replicas=99)
    error = client.refused("create_topics", "a", topics=[wrong], validate_only=True)
    must_equal(error.code, "INVALID_REPLICATION_FACTOR", "the error")


def refused_record(client: Actor, row: dict[str, object]) -> str:
    (result,) = client.try_to_produce([row])
    must(isinstance(result, ClientError), f"the record was accepted: {result}")
    assert isinstance(result, ClientError)
    return result.code
