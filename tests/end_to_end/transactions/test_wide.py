"""A producer that begins a transaction directly after one with very many partitions."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from compat.apache.apache_kafka import SINGLE_NODE
from pykbroker.coordinators.transaction_markers import MARKERS_PER_SLICE
from pykbroker_protocol.errors import ErrorCode
from tests.apis.request_builders import produced
from tests.apis.transactions.transcript import Producer, TransactionTranscript
from tests.end_to_end.transactions.reading import committed_values

if TYPE_CHECKING:
    from pykbroker_protocol.messages.produce import ProduceRequest
    from tests.apis.transcript import Topic
    from tests.end_to_end.conftest import StartBroker

PARTITIONS = range(4 * MARKERS_PER_SLICE)
VERSION_2_OF_END, VERSION_2_OF_PRODUCE = 5, 12
ENDS = (True, False, True, True)


def test_the_next_transaction_can_begin_while_the_previous_one_completes(
    start_broker: StartBroker,
) -> None:
    broker = start_broker(settings=SINGLE_NODE)
    client = TransactionTranscript(broker.port, "wide", time.time_ns() // 1_000_000)
    topic = client.topic(partitions=len(PARTITIONS))
    producer = client.producer(version=VERSION_2_OF_END)
    for number, committed in enumerate(ENDS):
        write_everywhere(producer, topic, b"%d" % number)
        answer = client.quietly(producer.ending(committed=committed), VERSION_2_OF_END)
        assert not answer.error_code, answer
        producer.id, producer.epoch = answer.producer_id, answer.producer_epoch
    producer.until_complete()
    for partition in (PARTITIONS[0], PARTITIONS[-1]):
        assert committed_values(client.wire, topic.name, partition) == [b"0", b"2", b"3"]
    client.close()


def write_everywhere(producer: Producer, topic: Topic, value: bytes) -> None:
    """Adds partitions in reverse order, whose markers come last; retries like clients."""
    left = list(reversed(PARTITIONS))
    while left:
        asked = to_partitions(producer, topic, left, value)
        answer = producer.broker.quietly(asked, VERSION_2_OF_PRODUCE)
        errors = {it.index: it.error_code for it in answer.responses[0].partition_responses}
        assert set(errors.values()) <= {ErrorCode.NONE, ErrorCode.CONCURRENT_TRANSACTIONS}
        left = [it for it in left if errors[it]]


def to_partitions(
    producer: Producer, topic: Topic, partitions: list[int], value: bytes
) -> ProduceRequest:
    """Produces one batch to each partition in one request."""
    requests = [producer.writing(topic, partition=it, value=value) for it in partitions]
    data = [it.topic_data[0].partition_data[0] for it in requests]
    together = produced(requests[0].topic_data[0].replace(partition_data=data))
    return together.replace(transactional_id=producer.transactional_id)
