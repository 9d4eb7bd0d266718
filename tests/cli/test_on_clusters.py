"""Commands on Apache Kafka and on PyKBroker print the same."""

import json
from collections.abc import Callable
from typing import Any

import pytest

Run = Callable[..., Any]


def test_a_topic_is_created_described_altered_and_deleted(ask: Run, eventually: Run) -> None:
    name = "cli-lifecycle"
    created = ask("topics", "create", name, "--partitions", "2", "--set", "retention.ms=1000")
    assert created.out == f"{name}: created, 2 partitions, 1 replica\n"
    assert eventually(lambda: name in ask("topics", "list", "--names").lines)
    altered = ask("topics", "alter", name, "--partitions", "3", "--set", "segment.bytes=1048576")
    assert altered.out == f"{name}: altered\n"
    assert eventually(lambda: "segment.bytes" in ask("topics", "describe", name).out)
    (described,) = ask("topics", "describe", name, "--json").json
    assert described["configs"] == {"retention.ms": "1000", "segment.bytes": "1048576"}
    assert [it["partition"] for it in described["partitions"]] == [0, 1, 2]
    assert {(it["start_offset"], it["end_offset"]) for it in described["partitions"]} == {(0, 0)}
    assert ask("topics", "delete", name).out == f"{name}: deleted\n"
    assert eventually(lambda: name not in ask("topics", "list", "--names").lines)


def test_a_topic_is_described_as_a_table(ask: Run, topic: str) -> None:
    lines = ask("topics", "describe", topic).lines
    assert lines[0] == f"topic    {topic}"
    assert lines[2].split() == [
        *("PARTITION", "LEADER", "EPOCH", "REPLICAS"),
        *("ISR", "START", "END"),
    ]
    assert len(lines) == 6


def test_a_dry_run_changes_nothing(ask: Run, topic: str) -> None:
    assert "would be created" in ask("topics", "create", "cli-dry", "--dry-run").out
    assert "would be altered" in ask("topics", "alter", topic, "--partitions", "9", "--dry-run").out
    assert "cli-dry" not in ask("topics", "list", "--names").lines
    assert len(ask("topics", "describe", topic, "--json").json[0]["partitions"]) == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("topics", "create", "TOPIC"), "topics create TOPIC: TOPIC_ALREADY_EXISTS: Topic 'TOPIC'"),
        (("topics", "create", "a/b"), "topics create a/b: INVALID_TOPIC_EXCEPTION: "),
        (
            ("topics", "create", "cli-wide", "--replicas", "9"),
            "topics create cli-wide: INVALID_REPLICATION_FACTOR: ",
        ),
        (
            ("topics", "create", "cli-bad", "--set", "retention.ms=x"),
            "topics create cli-bad: INVALID_CONFIG: ",
        ),
        (
            ("topics", "describe", "cli-nowhere"),
            "topics describe cli-nowhere: UNKNOWN_TOPIC_OR_PARTITION: ",
        ),
        (("topics", "delete", "cli-nowhere"), "topics delete cli-nowhere: UNKNOWN_TOPIC_OR_PART"),
        (
            ("topics", "alter", "TOPIC", "--partitions", "1"),
            "topics alter TOPIC: INVALID_PARTITIONS: The topic TOPIC currently has 3",
        ),
        (
            ("configs", "alter", "topic", "TOPIC", "--set", "nonsense=1"),
            "configs alter topic TOPIC: INVALID_CONFIG: ",
        ),
        (
            ("configs", "describe", "topic", "cli-nowhere"),
            "configs describe topic cli-nowhere: UNKNOWN_TOPIC_OR_PARTITION: ",
        ),
        (
            ("produce", "TOPIC", "x", "--partition", "7"),
            (
                "produce TOPIC: UNKNOWN_TOPIC_OR_PARTITION: Partition 7 does not exist, "
                "the topic has 3 partition(s)."
            ),
        ),
        (("consume", "cli-nowhere"), "consume cli-nowhere: UNKNOWN_TOPIC_OR_PARTITION: "),
        (
            ("consume", "TOPIC", "--from", "5", "--partition", "1"),
            "consume TOPIC: OFFSET_OUT_OF_RANGE: 5 is not in partition 1 (0 to 0)",
        ),
        (
            ("produce", "TOPIC", "x" * 100, "--batch-bytes", "1", "--partition", "0"),
            "produce TOPIC: MESSAGE_TOO_LARGE: ",
        ),
    ],
)
def test_an_error_is_one_line_with_object_and_error_name(
    ask: Run, topic_of_small_batches: str, arguments: tuple[str, ...], message: str
) -> None:
    topic = topic_of_small_batches
    outcome = ask(*(argument.replace("TOPIC", topic) for argument in arguments))
    assert outcome.exit_code == 1
    assert outcome.err.startswith(message.replace("TOPIC", topic).replace(topic + "_", "TOPIC_"))
    assert outcome.err.count("\n") == 1


def test_each_of_several_topics_is_reported(ask: Run, topic: str) -> None:
    outcome = ask("topics", "create", topic, "cli-several")
    assert outcome.exit_code == 1
    assert outcome.out.startswith("cli-several: created")
    assert outcome.err.startswith(f"topics create {topic}: TOPIC_ALREADY_EXISTS")
    assert ask("topics", "create", topic, "--if-not-exists").exit_code == 0
    assert ask("topics", "delete", "cli-several", "cli-nowhere", "--if-exists").exit_code == 0


def test_produced_records_are_consumed_with_keys_and_headers(ask: Run, topic: str) -> None:
    sent = ask("produce", topic, "at the depot", "--key", "truck-17", "--header", "driver=Ada")
    assert sent.exit_code == 0
    lines = ask("consume", topic, "--keys", "--headers").lines
    assert lines == ["driver=Ada\ttruck-17\tat the depot"]


@pytest.mark.parametrize(
    ("compression", "acks"),
    [("none", "0"), ("gzip", "1"), ("snappy", "all"), ("lz4", "all"), ("zstd", "0")],
)
def test_lines_are_written_with_all_delivery_options(
    ask: Run, topic: str, compression: str, acks: str
) -> None:
    lines = "".join(f"key-{i % 7}:value {i}\n" for i in range(1000))
    options = ("--key-separator", ":", "--compression", compression, "--acks", acks)
    ask("produce", topic, *options, "--batch-bytes", "4096", stdin=lines)
    assert sorted(ask("consume", topic, "--keys", "--separator", ":").lines) == sorted(
        lines.splitlines()
    )


def test_records_of_a_key_are_ordered_in_the_partition_of_the_java_client(
    ask: Run, topic: str
) -> None:
    ask(
        "produce",
        topic,
        "--key-separator",
        ":",
        stdin="foobar:1\na-little-bit-long-string:2\nfoobar:3\n",
    )
    found = [json.loads(line) for line in ask("consume", topic, "--json").lines]
    java_hashes = {"foobar": -790332482, "a-little-bit-long-string": -985981536}
    for key, values in (("foobar", ["1", "3"]), ("a-little-bit-long-string", ["2"])):
        partition = (java_hashes[key] & 0x7FFFFFFF) % 3
        assert [it["value"] for it in found if it["partition"] == partition] == values


def test_json_lines_are_written_and_printed_unchanged(ask: Run, topic: str) -> None:
    keep_old_records(ask, topic)
    lines = [
        {"key": "k", "value": None, "headers": {"h": "1"}, "partition": 2, "timestamp": 1000},
        {"key": None, "value_base64": "/w==", "partition": 2},
    ]
    reported = ask(
        "produce", topic, "--json-lines", "--json", stdin="\n".join(map(json.dumps, lines))
    )
    assert reported.json == {
        "topic": topic,
        "records": 2,
        "partitions": [{"partition": 2, "records": 2, "first_offset": 0, "last_offset": 1}],
    }
    first, second = (json.loads(line) for line in ask("consume", topic, "--json").lines)
    assert first == {
        "topic": topic,
        "partition": 2,
        "offset": 0,
        "timestamp": 1000,
        "key": "k",
        "value": None,
        "headers": [{"name": "h", "value": "1"}],
    }
    assert second["value_base64"] == "/w=="


def test_lines_before_an_invalid_line_are_written(ask: Run, topic: str) -> None:
    outcome = ask("produce", topic, "--key-separator", ":", stdin="a:1\nnonsense\nb:2\n")
    assert outcome.exit_code == 1
    assert outcome.err == f"produce {topic}: line 2: no separator ':': nonsense\n"
    assert ask("consume", topic).lines == ["1"]


@pytest.mark.parametrize(
    ("place", "values"),
    [
        ("beginning", "012345"),
        ("4", "45"),
        ("6", ""),
        ("end", ""),
        ("-2", "45"),
        ("-99", "012345"),
        ("@3000", "345"),
        ("1970-01-01T00:00:04.500Z", "5"),
        ("2030-01-01", ""),
    ],
)
def test_consume_starts_at_the_given_position(
    ask: Run, topic: str, place: str, values: str
) -> None:
    keep_old_records(ask, topic)
    lines = [json.dumps({"value": str(i), "timestamp": i * 1000, "partition": 0}) for i in range(6)]
    ask("produce", topic, "--json-lines", stdin="\n".join(lines))
    assert ask("consume", topic, "--partition", "0", "--from", place).lines == list(values)


def test_follow_ends_after_max_records(ask: Run, topic: str) -> None:
    ask("produce", topic, "a", "b", "c", "--partition", "1")
    assert ask("consume", topic, "--follow", "--max", "2").lines == ["a", "b"]


def test_configs_are_described_and_altered(ask: Run, topic: str, eventually: Run) -> None:
    ask("configs", "alter", "topic", topic, "--set", "retention.ms=1000")
    ask("configs", "alter", "topic", topic, "--append", "cleanup.policy=compact")
    assert eventually(lambda: stored(ask, topic) == {"retention.ms": "1000", **BOTH_POLICIES})
    ask("configs", "alter", "topic", topic, "--unset", "retention.ms")
    assert eventually(lambda: stored(ask, topic) == BOTH_POLICIES)
    everything = ask("configs", "describe", "topic", topic, "--all", "--explain", "--json").json
    assert {"retention.ms", "segment.bytes"} <= {it["name"] for it in everything}
    assert all(it["documentation"] for it in everything)


def test_group_configs_are_described_and_altered(ask: Run, topic: str, eventually: Run) -> None:
    interval = "consumer.heartbeat.interval.ms"
    assert ask("configs", "alter", "group", topic, "--set", f"{interval}=6000").exit_code == 0
    eventually(lambda: ask("configs", "describe", "group", topic, "--json").json != [])
    (found,) = ask("configs", "describe", "group", topic, "--json").json
    assert (found["name"], found["value"], found["source"]) == (interval, "6000", "group")
    refused = ask("configs", "alter", "group", topic, "--set", f"{interval}=1")
    assert refused.err.startswith(f"configs alter group {topic}: INVALID_CONFIG: ")
    assert ask("configs", "alter", "group", topic, "--unset", interval).exit_code == 0


def test_broker_configs_are_described_and_altered(ask: Run, eventually: Run) -> None:
    (found,) = ask("configs", "describe", "broker", "1", "log.dirs", "--json").json
    assert found["source"] == "file"
    altered = ask("configs", "alter", "broker", "default", "--set", "log.retention.ms=100000000")
    assert altered.exit_code == 0, altered.err
    found = eventually(
        lambda: ask("configs", "describe", "broker", "default", "log.retention.ms", "--json").json
    )
    assert found[0]["source"] == "all brokers"
    assert (
        ask("configs", "alter", "broker", "default", "--unset", "log.retention.ms").exit_code == 0
    )


def test_the_cluster_is_described(ask: Run, topic: str) -> None:
    found = ask("cluster", "describe", "--json").json
    assert found["controller"] == 1
    assert found["topics"] >= 1
    (broker,) = found["brokers"]
    assert (broker["id"], broker["host"], broker["fenced"]) == (1, "127.0.0.1", False)
    assert broker["leads"] == broker["replicas"] == found["partitions"]
    assert (broker["state"], broker["cordoned"], broker["error"]) == ("unfenced", False, None)
    assert broker["log_dirs"][0]["bytes"] >= 0
    assert [it["id"] for it in found["quorum"]["voters"]] == [1]
    assert (found["quorum"]["leader"], found["quorum"]["voters"][0]["lag"]) == (1, 0)
    assert (found["problems"], found["problems_omitted"]) == ([], 0)
    assert ask("cluster", "describe").lines[0] == f"cluster     {found['cluster_id']}"
    only = ask("cluster", "describe", "--topic", topic, "--json").json
    assert [it["partition"] for it in only["partition_states"]] == [0, 1, 2]
    assert {it["leader"] for it in only["partition_states"]} == {1}


def test_an_unknown_topic_is_an_error_of_cluster_describe(ask: Run) -> None:
    outcome = ask("cluster", "describe", "--topic", "cli-nowhere")
    assert outcome.exit_code == 1
    assert outcome.err.startswith("cluster describe cli-nowhere: UNKNOWN_TOPIC_OR_PARTITION")


def test_api_versions_are_listed(ask: Run) -> None:
    apis = {it["name"]: it for it in ask("api-versions", "--json").json["apis"]}
    assert apis["Produce"] == {
        "key": 0,
        "name": "Produce",
        "min_version": 0,
        "max_version": 13,
    }
    assert ask("api-versions").lines[0].split() == ["KEY", "API", "MIN", "MAX"]


def test_files_of_a_running_broker_are_dumped_without_corruption(
    ask: Run, topic: str, node: Any, pykbroker: Run
) -> None:
    ask("produce", topic, *map(str, range(100)), "--partition", "1", "--compression", "zstd")
    data = node.data_dir
    (log,) = (data / f"{topic}-1").glob("*.log")
    dumped = pykbroker("log", "dump", "--json", "--records", str(log))
    assert dumped.exit_code == 0
    found = [json.loads(line) for line in dumped.lines]
    assert [it["value"] for it in found if it["kind"] == "record"] == [str(i) for i in range(100)]
    assert found[-1]["next_offset"] == 100
    (metadata_log,) = (data / "__cluster_metadata-0").glob("*.log")
    metadata = map(json.loads, pykbroker("log", "dump", "--json", str(metadata_log)).lines)
    created = [it["fields"]["name"] for it in metadata if it.get("type") == "TopicRecord"]
    assert topic in created
    directory = pykbroker("log", "dump", str(data))
    assert directory.exit_code == 0, directory.out


BOTH_POLICIES = {"cleanup.policy": "delete,compact"}


def stored(ask: Run, topic: str) -> dict[str, str]:
    """Returns the configs that were set for the topic."""
    found = ask("configs", "describe", "topic", topic, "--json").json
    return {it["name"]: it["value"] for it in found if it["source"] == "topic"}


def keep_old_records(ask: Run, topic: str) -> None:
    """Disables retention, which would delete records of 1970 during the test."""
    assert ask("topics", "alter", topic, "--set", "retention.ms=-1").exit_code == 0
