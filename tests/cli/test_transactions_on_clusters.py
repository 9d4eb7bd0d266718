"""Transaction commands on Apache Kafka and on PyKBroker."""

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.apis.transactions.transcript import TransactionTranscript

Run = Callable[..., Any]


@pytest.fixture
def name(topic: str) -> str:
    """A transactional id that is unique to the test."""
    return f"{topic}-depot"


@pytest.fixture
def producer(node: Any, name: str) -> Iterator[Producer]:
    """An open transaction with records on two partitions."""
    producer = Producer(
        {"bootstrap.servers": node.bootstrap, "transactional.id": name, "linger.ms": 0}
    )
    producer.init_transactions(30)
    yield producer
    producer.abort_transaction(30)


@pytest.fixture
def under_way(producer: Producer, topic: str) -> Producer:
    producer.begin_transaction()
    for partition in (0, 2):
        producer.produce(topic, b"v", partition=partition)
    assert producer.flush(30) == 0
    return producer


@pytest.fixture
def hanging(node: Any, topic: str, ask: Run) -> Iterator[int]:
    """The producer id of an open transaction that no coordinator lists.

    Brokers verify transactions with the coordinator, unless the verification is disabled.
    """
    key = "transaction.partition.verification.enable"
    assert ask("configs", "alter", "broker", "1", "--set", f"{key}=false").exit_code == 0
    client = TransactionTranscript(node.port, f"{topic}-hanging", time.time_ns() // 1_000_000)
    producer = client.producer()
    producer.send(client.until_ready(topic, 3), partition=1)
    yield producer.id
    client.close()
    assert ask("configs", "alter", "broker", "1", "--unset", key).exit_code == 0


@pytest.mark.usefixtures("under_way")
def test_transactional_ids_are_listed(ask: Run, name: str) -> None:
    found = {it["transactional_id"]: it for it in ask("transactions", "list", "--json").json}
    listed = found[name]
    assert listed == {
        "transactional_id": name,
        "state": "Ongoing",
        "producer_id": listed["producer_id"],
        "coordinator": 1,
    }
    for filters, is_there in (
        (("--state", "Ongoing"), True),
        (("--state", "Empty", "--state", "CompleteCommit"), False),
        (("--producer", str(listed["producer_id"])), True),
        (("--longer-than", "1h"), False),
        (("--matching", f"{name[:-1]}."), True),
        (("--matching", name[:-1]), False),
    ):
        assert (name in ask("transactions", "list", "--names", *filters).lines) is is_there
    assert ask("transactions", "list").lines[0].split()[:3] == ["TRANSACTIONAL", "ID", "STATE"]


def test_an_invalid_pattern_is_rejected(ask: Run) -> None:
    failed = ask("transactions", "list", "--matching", "(")
    assert failed.exit_code == 1
    assert failed.err.startswith("transactions list: INVALID_REGULAR_EXPRESSION")


@pytest.mark.usefixtures("under_way")
def test_a_transaction_is_described(ask: Run, name: str, topic: str) -> None:
    (found,) = ask("transactions", "describe", name, "--json").json
    assert found | {"producer_id": 0, "started": 0} == {
        "transactional_id": name,
        "state": "Ongoing",
        "producer_id": 0,
        "producer_epoch": 0,
        "timeout_ms": 60_000,
        "started": 0,
        "coordinator": 1,
        "partitions": [{"topic": topic, "partitions": [0, 2]}],
    }
    assert abs(found["started"] - time.time() * 1000) < 60_000
    lines = ask("transactions", "describe", name).lines
    assert lines[1] == "state             Ongoing"
    assert lines[-1] == f"partitions        {topic}:0,2"


def test_an_unknown_transactional_id_is_an_error(ask: Run, name: str) -> None:
    failed = ask("transactions", "describe", name)
    assert failed.exit_code == 1
    assert failed.err.startswith(f"transactions describe {name}: TRANSACTIONAL_ID_NOT_FOUND")


@pytest.mark.usefixtures("under_way")
def test_producers_of_partitions_are_described(ask: Run, topic: str) -> None:
    found = ask("transactions", "describe-producers", f"{topic}:0,1", "--json").json
    (described,) = found
    assert described | {"producer_id": 0, "last_timestamp": 0} == {
        "topic": topic,
        "partition": 0,
        "producer_id": 0,
        "producer_epoch": 0,
        "coordinator_epoch": None,
        "last_sequence": 0,
        "last_timestamp": 0,
        "start_offset": 0,
    }
    lines = ask("transactions", "describe-producers", topic).lines
    assert [it.split()[1] for it in lines[1:]] == ["0", "2"]


@pytest.mark.usefixtures("under_way")
def test_a_hanging_transaction_is_found_and_aborted(ask: Run, topic: str, hanging: int) -> None:
    assert ask("transactions", "find-hanging", topic, "--json").json == []
    find = ("transactions", "find-hanging", topic, "--longer-than", "0.001s", "--json")
    (found,) = ask(*find).json
    assert (found["partition"], found["producer_id"]) == (1, hanging)
    with_error = ask(*find, "no-such-topic")
    assert with_error.exit_code == 1
    assert json.loads(with_error.out) == [found]
    assert with_error.err.startswith(
        "transactions find-hanging no-such-topic: UNKNOWN_TOPIC_OR_PARTITION"
    )
    abort = ("transactions", "abort", f"{topic}:1", "--start-offset")
    failed = ask(*abort, "77")
    assert failed.exit_code == 1
    assert failed.err == f"transactions abort: {topic}-1 has no open transaction at offset 77\n"
    (line,) = ask(*abort, str(found["start_offset"])).lines
    assert line == f"{topic}-1: aborted the transaction of producer {hanging} at offset 0"
    assert ask(*find).json == []
