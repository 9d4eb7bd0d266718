"""Producer ids, epochs and sequence numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker_protocol.messages.init_producer_id import InitProducerIdRequest
from pykbroker_protocol.messages.produce import PartitionProduceData
from tests.apis.conversations.catalog import conversation
from tests.apis.request_builders import (
    batch,
    fetched,
    from_partition,
    new_producer_id,
    produced,
    to_partition,
)

if TYPE_CHECKING:
    from tests.apis.transcript import Topic, Transcript

SEQUENCE_MAX = 2**31 - 1
SOME_ID = 4_000_000_000


class Producer:
    """Sends batches with a number of records from a sequence number on."""

    def __init__(self, broker: Transcript, topic: Topic, producer_id: int | None = None) -> None:
        self.broker = broker
        self.topic = topic
        self.id = producer_id or broker.producer_id()

    def send(
        self,
        sequence: int,
        count: int = 1,
        *,
        epoch: int = 0,
        version: int = 9,
        value: bytes = b"v",
    ) -> None:
        records = batch(
            *([value] * count),
            now_ms=self.broker.now_ms,
            producer_id=self.id,
            producer_epoch=epoch,
            base_sequence=sequence,
        )
        data = to_partition(records, topic=self.topic.name, topic_id=self.topic.id)
        note = f"epoch {epoch} sequence {sequence} count {count}"
        self.broker.ask(produced(data), version, note=note)

    def read_back(self) -> None:
        self.broker.ask(fetched(from_partition(topic=self.topic.name)), 11)


@conversation
def producer_ids_are_allocated(broker: Transcript) -> None:
    assert broker.producer_id() >= 0
    for version in range(6):
        broker.ask(new_producer_id(), version)
    one = InitProducerIdRequest(
        transactional_id=None, transaction_timeout_ms=-1, producer_id=5, producer_epoch=-1
    )
    broker.ask(one, 4, note="an id without an epoch")
    broker.ask(one.replace(producer_id=-1, producer_epoch=3), 4, note="an epoch without an id")
    broker.ask(one.replace(producer_epoch=3), 4, note="an id and an epoch")
    broker.ask(new_producer_id().replace(transactional_id=""), 4, note="an empty transactional id")
    broker.ask(new_producer_id().replace(transaction_timeout_ms=0), 4, note="no time at all")


@conversation
def duplicate_batches_return_the_first_offset(broker: Transcript) -> None:
    producer = Producer(broker, broker.topic())
    for sequence in range(0, 24, 3):
        producer.send(sequence, 3)
    for sequence in (21, 9, 15, 18, 12):
        producer.send(sequence, 3)
    producer.send(6, 3)
    producer.send(0, 3)
    producer.send(21, 2)
    producer.send(22, 2)
    producer.send(23, 3)
    producer.send(24, 3)
    producer.read_back()


@conversation
def duplicate_batches_with_log_append_time(broker: Transcript) -> None:
    topic = broker.topic(configs={"message.timestamp.type": "LogAppendTime"})
    producer = Producer(broker, topic)
    for sequence in (0, 1, 0, 1):
        producer.send(sequence)


@conversation
def sequence_numbers_with_a_gap(broker: Transcript) -> None:
    producer = Producer(broker, broker.topic())
    producer.send(0, 3)
    for sequence in (4, 100, 2, 1):
        producer.send(sequence)
    producer.send(3)
    producer.read_back()


@conversation
def first_sequence_numbers_of_unknown_producer_ids(broker: Transcript) -> None:
    for number, (sequence, epoch) in enumerate(((0, 0), (5, 0), (0, 3), (7, 3))):
        producer = Producer(broker, broker.topic(f"t{number}"), SOME_ID)
        producer.send(sequence, 2, epoch=epoch)
        producer.send(sequence + 2, epoch=epoch)
        producer.send(0, epoch=epoch)


@conversation
def epochs_older_and_newer(broker: Transcript) -> None:
    producer = Producer(broker, broker.topic())
    producer.send(0, epoch=3)
    producer.send(1, epoch=2)
    producer.send(0, epoch=2)
    producer.send(1, epoch=4)
    producer.send(5, epoch=4)
    producer.send(0, epoch=4)
    producer.send(0, epoch=4)
    producer.send(1, epoch=3)
    producer.send(1, epoch=4)
    producer.send(0, epoch=32767)
    producer.read_back()


@conversation
def inconsistent_ids_epochs_and_sequence_numbers(broker: Transcript) -> None:
    producer = Producer(broker, broker.topic(), SOME_ID)
    producer.send(-1)
    producer.send(-2)
    with broker.known_difference("Producer id without an epoch"):
        producer.send(0, epoch=-1)
    without_id = Producer(broker, broker.topic("nobody"), -1)
    without_id.send(0)
    without_id.send(0, epoch=-1)
    without_id.send(-1, epoch=5)
    Producer(broker, broker.topic("odd"), -2).send(0)


@conversation
def sequence_numbers_wrap(broker: Transcript) -> None:
    producer = Producer(broker, broker.topic())
    producer.send(SEQUENCE_MAX - 4, 3)
    producer.send(SEQUENCE_MAX - 1, 4)
    producer.send(2, 2)
    producer.send(SEQUENCE_MAX - 1, 4)
    producer.send(5)
    exact = Producer(broker, broker.topic("exact"))
    exact.send(SEQUENCE_MAX - 1, 2)
    exact.send(0)
    exact.send(0)
    exact.read_back()


@conversation
def sequence_numbers_are_per_partition(broker: Transcript) -> None:
    topic = broker.topic(partitions=2)
    producer = Producer(broker, topic)
    records = batch(
        now_ms=broker.now_ms, producer_id=producer.id, producer_epoch=0, base_sequence=0
    )
    data = to_partition(records, topic=topic.name, topic_id=topic.id)
    both = data.replace(
        partition_data=[PartitionProduceData(index=index, records=records) for index in range(2)]
    )
    for _ in range(2):
        broker.ask(produced(both), 9)
    producer.send(1)


@conversation
def sequence_numbers_are_independent_of_acks(broker: Transcript) -> None:
    topic = broker.topic()
    producer = Producer(broker, topic)
    for acks in (1, -1, 1):
        records = batch(
            now_ms=broker.now_ms, producer_id=producer.id, producer_epoch=0, base_sequence=0
        )
        data = to_partition(records, topic=topic.name, topic_id=topic.id)
        broker.ask(produced(data, acks=acks), 9)
