"""Apache Kafka's tools list, describe and end transactions, and read our transaction log."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import pytest

from compat.apache.apache_kafka import SINGLE_NODE
from pykbroker.internal_topics import TRANSACTION_STATE
from tests.apis.transactions.transcript import TransactionTranscript
from tests.end_to_end.transactions.reading import committed_values

if TYPE_CHECKING:
    from collections.abc import Iterator

    from compat.apache import ApacheTools
    from compat.broker_process import BrokerProcess
    from tests.apis.transcript import Topic
    from tests.end_to_end.conftest import StartBroker

FORMATTER = "org.apache.kafka.tools.consumer.TransactionLogMessageFormatter"
STATES_OF_A_COMMIT = ["Empty", "Ongoing", "PrepareCommit", "CompleteCommit"]
NUMBERS = {0: "Empty", 1: "Ongoing", 2: "PrepareCommit", 4: "CompleteCommit"}


@pytest.fixture
def broker(start_broker: StartBroker) -> BrokerProcess:
    """A broker without transaction verification, on which transactions can hang."""
    return start_broker(
        settings={**SINGLE_NODE, "transaction.partition.verification.enable": "false"}
    )


@pytest.fixture
def client(broker: BrokerProcess) -> Iterator[TransactionTranscript]:
    client = TransactionTranscript(broker.port, "depot", time.time_ns() // 1_000_000)
    yield client
    client.close()


@pytest.fixture
def topic(client: TransactionTranscript) -> Topic:
    return client.topic("trucks", partitions=2)


class TransactionTool:
    """Runs `kafka-transactions` and parses its tables."""

    def __init__(self, tools: ApacheTools, broker: BrokerProcess) -> None:
        self.tools = tools
        self.bootstrap = broker.bootstrap

    def run(self, *arguments: str) -> str:
        done = self.tools.tool("transactions", "--bootstrap-server", self.bootstrap, *arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def table(self, *arguments: str) -> list[dict[str, str]]:
        """Returns rows by column header."""
        header, *rows = [it.split() for it in self.run(*arguments).splitlines() if it.strip()]
        return [dict(zip(header, row, strict=True)) for row in rows]


@pytest.fixture
def tool(apache_tools: ApacheTools, broker: BrokerProcess) -> TransactionTool:
    return TransactionTool(apache_tools, broker)


def test_transactions_are_listed_and_described(
    tool: TransactionTool, client: TransactionTranscript, topic: Topic
) -> None:
    producer = client.producer("1")
    client.producer("2")
    producer.add(topic, (0, 1))
    listed = {it["TransactionalId"]: it["TransactionState"] for it in tool.table("list")}
    assert listed == {"depot-1": "Ongoing", "depot-2": "Empty"}
    for filters, names in (
        (("--transactional-id-pattern", ".*-2"), ["depot-2"]),
        (("--duration-filter", "3600000"), ["depot-2"]),
    ):
        assert [it["TransactionalId"] for it in tool.table("list", *filters)] == names
    (described,) = tool.table("describe", "--transactional-id", "depot-1")
    assert described["ProducerId"] == str(producer.id)
    assert described["TransactionState"] == "Ongoing"
    assert described["TransactionTimeoutMs"] == "60000"
    assert set(described["TopicPartitions"].split(",")) == {f"{topic.name}-0", f"{topic.name}-1"}


def test_a_hanging_transaction_is_found_and_aborted(
    tool: TransactionTool, client: TransactionTranscript, topic: Topic
) -> None:
    known, unknown = client.producer("known"), client.producer("unknown")
    known.add(topic, (1,))
    known.send(topic, partition=1)
    unknown.send(topic)
    assert tool.table("find-hanging", "--broker-id", "1") == []
    (found,) = tool.table("find-hanging", "--broker-id", "1", "--max-transaction-timeout", "0")
    assert found["Topic"] == topic.name
    assert (found["Partition"], found["ProducerId"]) == ("0", str(unknown.id))
    where = ("--topic", topic.name, "--partition", "0")
    (described,) = tool.table("describe-producers", *where)
    assert described["CurrentTransactionStartOffset"] == found["StartOffset"] == "0"
    tool.run("abort", *where, "--start-offset", "0")
    assert tool.table("find-hanging", "--broker-id", "1", "--max-transaction-timeout", "0") == []
    assert committed_values(client.wire, topic.name, 0) == []
    known.end()
    assert committed_values(client.wire, topic.name, 1) == [b"v"]


def test_an_operator_fences_the_owner_of_a_transactional_id(
    tool: TransactionTool, client: TransactionTranscript, topic: Topic
) -> None:
    producer = client.producer("1")
    producer.add(topic)
    producer.send(topic)
    tool.run("forceTerminateTransaction", "--transactionalId", "depot-1")
    producer.until_complete()
    assert client.quietly(producer.ending(), 4).error_code
    assert committed_values(client.wire, topic.name, 0) == []


def test_apache_kafkas_tools_decode_the_transaction_log(
    apache_tools: ApacheTools,
    broker: BrokerProcess,
    client: TransactionTranscript,
    topic: Topic,
) -> None:
    producer = client.producer("1")
    producer.add(topic, (0, 1))
    producer.end()
    assert [NUMBERS[it] for it in states_by_formatter(apache_tools, broker)] == STATES_OF_A_COMMIT
    client.close()
    broker.stop()
    dumped = dump_of_transactions(apache_tools, broker)
    assert dumped.count('"transactionalId":"depot-1"') == len(STATES_OF_A_COMMIT)
    assert '"transactionStatus":4,"transactionPartitions":[]' in dumped
    assert f'{{"topic":"{topic.name}","partitionIds":[0,1]}}' in dumped
    assert "isvalid: false" not in dumped


def states_by_formatter(tools: ApacheTools, broker: BrokerProcess) -> list[int]:
    done = tools.tool(
        "console-consumer",
        *("--bootstrap-server", broker.bootstrap, "--topic", TRANSACTION_STATE),
        *("--from-beginning", "--formatter", FORMATTER),
        *("--max-messages", len(STATES_OF_A_COMMIT)),
    )
    assert done.returncode == 0, done.stderr
    decoder, text, found = json.JSONDecoder(), done.stdout, []
    while text := text.lstrip():
        document, end = decoder.raw_decode(text)
        found.append(document["value"]["data"]["transactionStatus"])
        text = text[end:]
    return found


def dump_of_transactions(tools: ApacheTools, broker: BrokerProcess) -> str:
    files = broker.data_dir.glob(f"{TRANSACTION_STATE}-*/*.log")
    written = [it for it in files if it.stat().st_size]
    return tools.dump_log(*written, options=["--transaction-log-decoder"])


def test_the_transaction_version_can_be_lowered_and_raised(
    apache_tools: ApacheTools, broker: BrokerProcess
) -> None:
    def run(*arguments: str) -> str:
        done = apache_tools.tool("features", "--bootstrap-server", broker.bootstrap, *arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def level() -> str:
        (line,) = (it for it in run("describe").splitlines() if "transaction.version" in it)
        return line.partition("FinalizedVersionLevel: ")[2].split()[0]

    assert level() == "2"
    run("downgrade", "--feature", "transaction.version=1")
    assert level() == "1"
    broker.kill()
    broker.start()
    assert level() == "1"
    run("upgrade", "--feature", "transaction.version=2")
    assert level() == "2"
