"""Apache Kafka's tools describe groups, change their offsets and read our offsets topic."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from pykbroker.internal_topics import partition_of_name
from tests.end_to_end.groups.test_textbook import SETTINGS
from tests.end_to_end.groups.writing import create_topic

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from compat.apache import ApacheTools
    from compat.broker_process import BrokerProcess
    from tests.end_to_end.conftest import StartBroker

TOPIC = "trucks"
PARTITIONS = 2
RECORDS = 10
TIMEOUT_SECONDS = 30.0
OUR_RECORDS = 4
"""A stable generation, two offsets in one commit, and the empty generation at the end."""
FORMATTERS = "org.apache.kafka.tools.consumer"


@pytest.fixture
def broker(start_broker: StartBroker) -> BrokerProcess:
    """A topic with ten records, five in each of two partitions."""
    broker = start_broker(settings=SETTINGS)
    create_topic(broker.bootstrap, TOPIC, PARTITIONS)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(RECORDS):
        producer.produce(TOPIC, f"record {number}", partition=number % PARTITIONS)
    assert producer.flush(TIMEOUT_SECONDS) == 0
    return broker


@pytest.fixture
def fleet(broker: BrokerProcess) -> Iterator[Consumer]:
    """A member that has read all records and committed three records of each partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "fleet",
            "client.id": "truck",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([TOPIC])
    found = 0
    while found < RECORDS:
        found += len(consumer.consume(RECORDS, 0.1))
    places = [TopicPartition(TOPIC, number, 3) for number in range(PARTITIONS)]
    consumer.commit(offsets=places, asynchronous=False)
    yield consumer
    consumer.close()


class GroupTool:
    """Runs `kafka-consumer-groups` and parses its tables."""

    def __init__(self, tools: ApacheTools, broker: BrokerProcess) -> None:
        self.tools = tools
        self.bootstrap = broker.bootstrap

    def run(self, *arguments: str) -> str:
        done = self.tools.tool("consumer-groups", "--bootstrap-server", self.bootstrap, *arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    def table(self, *arguments: str) -> list[dict[str, str]]:
        """Returns rows by column header; an empty cell is a dash."""
        lines = [it.split() for it in self.run(*arguments).splitlines()]
        (header,) = (it for it in lines if it[:1] == ["GROUP"])
        rows = (it for it in lines if it[:1] == ["fleet"])
        return [dict(zip(header, row, strict=False)) for row in rows]

    def offsets(self) -> dict[int, tuple[str, str]]:
        """Returns committed offset and lag of each partition."""
        rows = self.table("--describe", "--group", "fleet")
        return {int(it["PARTITION"]): (it["CURRENT-OFFSET"], it["LAG"]) for it in rows}


@pytest.fixture
def groups(apache_tools: ApacheTools, broker: BrokerProcess) -> GroupTool:
    return GroupTool(apache_tools, broker)


def test_consumer_groups_describes_a_group_its_members_and_its_lag(
    groups: GroupTool, fleet: Consumer
) -> None:
    assert groups.run("--list").split() == ["fleet"]
    rows = groups.table("--describe", "--group", "fleet")
    assert {it["PARTITION"]: it["LAG"] for it in rows} == {"0": "2", "1": "2"}
    assert {(it["CURRENT-OFFSET"], it["LOG-END-OFFSET"]) for it in rows} == {("3", "5")}
    assert {it["CONSUMER-ID"] for it in rows} == {fleet.memberid()}
    (member,) = groups.table("--describe", "--group", "fleet", "--members")
    assert (member["CLIENT-ID"], member["#PARTITIONS"]) == ("truck", "2")
    (state,) = groups.table("--describe", "--group", "fleet", "--state")
    assert "Stable" in state.values()
    listed = groups.table("--list", "--state", "Stable")
    assert [it["GROUP"] for it in listed] == ["fleet"]


def test_consumer_groups_resets_offsets_and_deletes_them_and_the_group(
    groups: GroupTool, fleet: Consumer
) -> None:
    refused = groups.run("--delete", "--group", "fleet")
    assert "GroupNotEmptyException" in refused
    fleet.close()
    everywhere = ("--group", "fleet", "--topic", TOPIC, "--execute", "--reset-offsets")
    for option, offset in (
        (("--to-earliest",), 0),
        (("--shift-by", "4"), 4),
        (("--to-latest",), 5),
        (("--to-offset", "1"), 1),
        (("--to-datetime", "2020-01-01T00:00:00.000"), 0),
        (("--by-duration", "PT0S"), 5),
    ):
        groups.run(*everywhere, *option)
        assert groups.offsets() == dict.fromkeys(range(2), (str(offset), str(5 - offset)))
    groups.run("--delete-offsets", "--group", "fleet", "--topic", f"{TOPIC}:0")
    assert groups.offsets() == {1: ("5", "0")}
    assert "successful" in groups.run("--delete", "--group", "fleet")
    assert groups.run("--list").split() == []


def test_the_console_consumer_continues_at_the_committed_offsets(
    apache_tools: ApacheTools, broker: BrokerProcess, groups: GroupTool
) -> None:
    def read(count: int) -> list[str]:
        done = apache_tools.tool(
            *("console-consumer", "--bootstrap-server", broker.bootstrap, "--topic", TOPIC),
            *("--group", "fleet", "--from-beginning", "--max-messages", str(count)),
            *("--timeout-ms", "20000"),
        )
        assert done.returncode == 0, done.stderr
        return [it for it in done.stdout.splitlines() if it.startswith("record")]

    seen = read(4) + read(RECORDS - 4)
    assert sorted(seen) == sorted(f"record {number}" for number in range(RECORDS))
    assert groups.offsets() == dict.fromkeys(range(2), ("5", "0"))


def test_dump_log_segments_decodes_our_offsets_and_groups(
    apache_tools: ApacheTools, broker: BrokerProcess, fleet: Consumer
) -> None:
    member_id = fleet.memberid()
    fleet.close()
    assert broker.stop() == 0
    dumped = "".join(
        apache_tools.dump_log(file, options=["--offsets-decoder"]) for file in offset_logs(broker)
    )
    entries = [payload_of(it) for it in dumped.splitlines() if "payload:" in it]
    commits = [it for it in entries if '"offset":3' in it and '"group":"fleet"' in it]
    assert len(commits) == PARTITIONS
    assert any('"protocol":"range"' in it and str(member_id) in it for it in entries)
    assert "corrupt" not in dumped.lower()


def offset_logs(broker: BrokerProcess) -> list[Path]:
    return sorted(broker.data_dir.glob("__consumer_offsets-*/*.log"))


def payload_of(line: str) -> str:
    return line[line.index("key:") :].replace(" ", "")


@pytest.mark.parametrize("formatter", ["OffsetsMessageFormatter", "GroupMetadataMessageFormatter"])
def test_the_console_consumer_reads_our_offsets_topic_with_its_formatters(
    formatter: str, apache_tools: ApacheTools, broker: BrokerProcess, fleet: Consumer
) -> None:
    fleet.close()
    place = partition_of_name("fleet", SETTINGS["offsets.topic.num.partitions"])
    done = apache_tools.tool(
        *("console-consumer", "--bootstrap-server", broker.bootstrap),
        *("--topic", "__consumer_offsets", "--partition", str(place), "--offset", "earliest"),
        *("--max-messages", str(OUR_RECORDS), "--formatter", f"{FORMATTERS}.{formatter}"),
    )
    entries = list(json_objects(done.stdout))
    assert entries, done.stdout + done.stderr
    assert {it["key"]["data"]["group"] for it in entries} == {"fleet"}
    if formatter == "OffsetsMessageFormatter":
        assert {offset_in(it) for it in entries} == {(0, 3), (1, 3)}
    else:
        last = entries[-1]["value"]["data"]
        assert (last["protocolType"], last["members"]) == ("consumer", [])


def json_objects(text: str) -> Iterator[Any]:
    """Splits objects that the formatters print without a separator."""
    decoder, position = json.JSONDecoder(), 0
    while (position := text.find("{", position)) >= 0:
        value, position = decoder.raw_decode(text, position)
        yield value


def offset_in(entry: dict[str, Any]) -> tuple[int, int]:
    return entry["key"]["data"]["partition"], entry["value"]["data"]["offset"]
