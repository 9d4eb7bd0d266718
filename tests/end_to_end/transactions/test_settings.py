"""The effect of each transaction property on clients."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from compat.apache.apache_kafka import SINGLE_NODE
from pykbroker.internal_topics import TRANSACTION_STATE
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from tests.apis.conversations.configurations import BROKER, SET, altered
from tests.apis.conversations.configurations import described as described_configurations
from tests.apis.transactions.transcript import (
    Producer,
    TransactionTranscript,
    described,
    produce_code,
)
from tests.end_to_end.transactions.reading import committed_values

if TYPE_CHECKING:
    from compat.broker_process import BrokerProcess
    from tests.end_to_end.conftest import StartBroker


def talk_to(broker: BrokerProcess) -> TransactionTranscript:
    return TransactionTranscript(broker.port, "depot", time.time_ns() // 1_000_000)


def state_of(producer: Producer) -> str:
    answer = producer.broker.quietly(described(producer.transactional_id), 0)
    return str(answer.transaction_states[0].transaction_state)


def test_the_transaction_topic_has_the_configured_properties(start_broker: StartBroker) -> None:
    broker = start_broker(
        settings={
            "transaction.state.log.num.partitions": 7,
            "transaction.state.log.segment.bytes": 2_000_000,
        }
    )
    client = talk_to(broker)
    client.transactional_id()
    assert len(client.metadata_of(TRANSACTION_STATE).partitions) == 7
    keys = ("segment.bytes", "min.insync.replicas", "cleanup.policy")
    answer = client.quietly(described_configurations(TRANSACTION_STATE, keys=keys, whole=False), 4)
    found = {it.name: it.value for it in answer.results[0].configs}
    # min.insync.replicas is 2 by default; a single node can only satisfy 1.
    assert [found[key] for key in keys] == ["2000000", "1", "compact"]
    client.close()


def test_transaction_timeouts_above_the_maximum_are_rejected(start_broker: StartBroker) -> None:
    broker = start_broker(settings={**SINGLE_NODE, "transaction.max.timeout.ms": 5_000})
    client = talk_to(broker)
    producer = Producer(client, client.transactional_id())
    for timeout_ms, code in (
        (5_001, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        (5_000, ErrorCode.NONE),
    ):
        answer = client.quietly(producer.claim(transaction_timeout_ms=timeout_ms), 4)
        assert answer.error_code == code
    client.close()


def test_a_timed_out_transaction_is_aborted_and_its_owner_fenced(
    start_broker: StartBroker,
) -> None:
    often = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": 50}
    client = talk_to(start_broker(settings={**SINGLE_NODE, **often}))
    topic = client.topic()
    slow, patient = (
        client.producer("slow", transaction_timeout_ms=1_000),
        client.producer("patient"),
    )
    for producer in (slow, patient):
        producer.add(topic)
        producer.send(topic)
    client.until(
        described(slow.transactional_id),
        0,
        lambda it: it.transaction_states[0].transaction_state == "CompleteAbort",
    )
    assert client.quietly(slow.ending(), 4).error_code == ErrorCode.PRODUCER_FENCED
    assert state_of(patient) == "Ongoing"
    patient.end()
    assert committed_values(client.wire, topic.name, 0) == [b"v"]
    client.close()


def test_transactional_ids_without_a_transaction_expire(start_broker: StartBroker) -> None:
    soon = {
        "transactional.id.expiration.ms": 1,
        "transaction.remove.expired.transaction.cleanup.interval.ms": 50,
    }
    broker = start_broker(settings={**SINGLE_NODE, **soon})
    client = talk_to(broker)
    topic = client.topic()
    busy = client.producer("busy")
    busy.add(topic)
    idle = client.transactional_id("idle")
    client.quietly(Producer(client, idle).claim(), 4)
    client.until(
        described(idle),
        0,
        lambda it: it.transaction_states[0].error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
    )
    assert state_of(busy) == "Ongoing"
    client.close()
    broker.kill()
    broker.start()
    client = talk_to(broker)
    client.transactional_id("idle")
    assert state_of(Producer(client, idle)) == ""
    client.close()


def test_partitions_expire_producers_without_open_transactions(
    start_broker: StartBroker,
) -> None:
    soon = {"producer.id.expiration.ms": 1, "producer.id.expiration.check.interval.ms": 50}
    client = talk_to(start_broker(settings={**SINGLE_NODE, **soon}))
    topic = client.topic()
    busy, done = client.producer("busy"), client.producer("done")
    for producer in (busy, done):
        producer.add(topic)
        producer.send(topic)
    done.end()
    asked = DescribeProducersRequest(topics=[TopicRequest(name=topic.name, partition_indexes=[0])])
    answer = client.until(
        asked, 0, lambda it: len(it.topics[0].partitions[0].active_producers) == 1
    )
    assert answer.topics[0].partitions[0].active_producers[0].producer_id == busy.id
    client.close()


def test_partitions_verify_transactions_unless_disabled(
    start_broker: StartBroker,
) -> None:
    client = talk_to(start_broker(settings=SINGLE_NODE))
    topic = client.topic()
    producer = client.producer()
    for verifies, code in (
        (None, ErrorCode.TRANSACTION_ABORTABLE),
        ("false", ErrorCode.NONE),
    ):
        if verifies is not None:
            change = ("transaction.partition.verification.enable", SET, verifies)
            answer = client.quietly(altered("1", change, kind=BROKER), 1)
            assert not answer.responses[0].error_code, answer
        assert produce_code(client.quietly(producer.writing(topic), 11)) == code
    client.close()
