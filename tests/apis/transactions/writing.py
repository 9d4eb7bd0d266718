"""Transactional records: appends and reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pykbroker_protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from pykbroker_protocol.messages.produce import PartitionProduceData
from tests.apis.conversations.fetching import delete_before
from tests.apis.request_builders import (
    batch,
    fetched,
    from_partition,
    offsets_at,
    produced,
    to_partition,
)
from tests.apis.transactions.transcript import Producer, conversation, described

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.apis.transactions.transcript import TransactionTranscript
    from tests.apis.transcript import Topic

NOBODY = 4_000_000_000
VERSION_1, VERSION_2 = 11, 13
"""Versions of Produce for transaction versions 1 and 2."""
COMMITTED = 1


def records_of(producer: Producer, *, sequence: int = 0, count: int = 1, **more: Any) -> bytes:
    header = {
        "producer_id": producer.id,
        "producer_epoch": producer.epoch,
        "base_sequence": sequence,
        "is_transactional": True,
    }
    return batch(*[b"v"] * count, now_ms=producer.broker.now_ms, **header | more)


def send(
    producer: Producer,
    topic: Topic,
    *,
    version: int,
    note: str = "",
    transactional_id: str | None = "its own",
    acks: int = -1,
    partition: int = 0,
    **more: Any,
) -> None:
    """Sends a batch and records the response."""
    data = to_partition(
        records_of(producer, **more), topic=topic.name, topic_id=topic.id, partition=partition
    )
    given = producer.transactional_id if transactional_id == "its own" else transactional_id
    request = produced(data, acks=acks).replace(transactional_id=given)
    producer.broker.ask(request, version, note=note)


def read(
    broker: TransactionTranscript, topic: Topic, *offsets: int, bytes_max: int = 1 << 20
) -> None:
    """Fetches with each isolation level from each offset."""
    for isolation in (0, 1):
        for offset in offsets or (0,):
            request = fetched(
                from_partition(offset, topic=topic.name, bytes_max=bytes_max),
                isolation_level=isolation,
            )
            broker.ask(request, 11, note=f"isolation {isolation} from {offset}")


def look_up(
    broker: TransactionTranscript, topic: Topic, questions: Sequence[int] = (-1, -2, -3)
) -> None:
    """Sends ListOffsets with each special timestamp and isolation level."""
    times = (*questions, 0, broker.now_ms, broker.now_ms + 5, broker.now_ms + 600_000)
    for isolation in (0, 1):
        for number, request in enumerate(offsets_at(topic.name, times, isolation=isolation)):
            broker.ask(request, 9, note=f"isolation {isolation} time {number}")


# --- Appends


@conversation
def batches_of_version_1_require_an_added_partition(
    broker: TransactionTranscript,
) -> None:
    topic = broker.topic(partitions=2)
    for version in (3, 8, 9, 10, 11):
        producer = broker.producer(f"id{version}")
        send(producer, topic, version=version, note="before it is added")
        producer.add(topic)
        send(producer, topic, version=version, note="after")
        send(producer, topic, version=version, note="again")
        send(producer, topic, version=version, sequence=1, count=2, note="more")
        send(producer, topic, version=version, partition=1, note="elsewhere")
        broker.ask(described(producer.transactional_id), 0)
        producer.end()
        send(producer, topic, version=version, sequence=3, note="after the end")
        producer.add(topic)
        send(producer, topic, version=version, sequence=3, note="in the next")
        producer.end(committed=False)
    read(broker, topic)


@conversation
def batches_of_version_2_add_their_partition(broker: TransactionTranscript) -> None:
    topic = broker.topic(partitions=2)
    for version in (12, 13):
        producer = broker.producer(f"id{version}", version=5)
        for committed in (True, False):
            send(producer, topic, version=version, note="first")
            send(producer, topic, version=version, sequence=1, count=2, note="more")
            send(producer, topic, version=version, note="first again")
            send(producer, topic, version=version, partition=1, note="elsewhere")
            broker.ask(described(producer.transactional_id), 0)
            before = producer.epoch
            producer.end(committed=committed, version=5)
            send(producer, topic, version=version, producer_epoch=before, sequence=3, note="late")
    read(broker, topic)


@conversation
def other_producers_send_batches(broker: TransactionTranscript) -> None:
    topic = broker.topic()
    producer = broker.producer(version=5)
    producer.take_over(version=5)
    for version in (3, 10, 11, 12, 13):
        strangers: tuple[tuple[str, dict[str, Any]], ...] = (
            ("another id", {"producer_id": NOBODY}),
            ("an old epoch", {"producer_epoch": 0}),
            ("a new epoch", {"producer_epoch": 9}),
            ("no id", {"producer_id": -1, "producer_epoch": -1, "base_sequence": -1}),
            ("no epoch", {"producer_epoch": -1}),
            ("no sequence", {"base_sequence": -1}),
        )
        for note, header in strangers:
            send(producer, topic, version=version, note=note, **header)
        for name in (None, "", "unknown"):
            send(producer, topic, version=version, note=f"as {name}", transactional_id=name)
        nameless = records_of(producer, is_transactional=False, producer_id=NOBODY + version)
        data = to_partition(nameless, topic=topic.name, topic_id=topic.id)
        request = produced(data).replace(transactional_id=producer.transactional_id)
        broker.ask(request, version, note="outside of a transaction")
    broker.ask(described(producer.transactional_id), 0)
    read(broker, topic)


@conversation
def batches_of_two_producers_in_one_request(broker: TransactionTranscript) -> None:
    topic = broker.topic(partitions=2)
    one, other = broker.producer("one"), broker.producer("other")
    for version in (11, 12):
        for acks in (-1, 0):
            data = to_partition(None, topic=topic.name).replace(
                partition_data=[
                    PartitionProduceData(index=index, records=records_of(it))
                    for index, it in enumerate((one, other))
                ]
            )
            request = produced(data, acks=acks).replace(transactional_id=one.transactional_id)
            if acks:
                broker.ask(request, version)


@conversation
def requests_with_some_added_partitions(broker: TransactionTranscript) -> None:
    topic = broker.topic(partitions=3)
    for version in (9, 10, 11, 12):
        producer = broker.producer(f"id{version}", version=5)
        producer.add(topic, (1,))
        good = records_of(producer)
        plain = batch(now_ms=broker.now_ms)
        data = to_partition(None, topic=topic.name).replace(
            partition_data=[
                PartitionProduceData(index=0, records=good),
                PartitionProduceData(index=1, records=good),
                PartitionProduceData(index=2, records=plain),
                PartitionProduceData(index=7, records=good),
            ]
        )
        request = produced(data).replace(transactional_id=producer.transactional_id)
        broker.ask(request, version)
        broker.ask(described(producer.transactional_id), 0)
        producer.end(version=5)


@conversation
def a_rejected_batch_does_not_begin_a_transaction(
    broker: TransactionTranscript,
) -> None:
    topic = broker.topic(configs={"max.message.bytes": "200"})
    for version in (VERSION_1, VERSION_2):
        producer = broker.producer(f"id{version}", version=5)
        if version == VERSION_1:
            producer.add(topic)
        send(producer, topic, version=version, count=40, note="too large")
        read(broker, topic)
        send(producer, topic, version=version, sequence=40, note="the next")
        send(producer, topic, version=version, note="the first")
        send(producer, topic, version=version, sequence=5, note="with a gap")
        producer.end(version=5 if version == VERSION_2 else 4)
    read(broker, topic)


@conversation
def sequence_numbers_without_producer_state(broker: TransactionTranscript) -> None:
    for version in (VERSION_1, VERSION_2):
        topic = broker.topic(f"t{version}")
        producer = broker.producer(f"id{version}", version=5)
        if version == VERSION_1:
            producer.add(topic)
        send(producer, topic, version=version, sequence=7, note="in the middle")
        send(producer, topic, version=version, sequence=0, note="at the start")
        send(producer, topic, version=version, sequence=8, note="behind the middle")
        producer.end(version=5 if version == VERSION_2 else 4)
        read(broker, topic)


@conversation
def a_batch_in_order_after_a_rejected_one(broker: TransactionTranscript) -> None:
    topic = broker.topic()
    producer = broker.producer()
    producer.add(topic)
    producer.send(topic)
    producer.end()
    send(producer, topic, version=VERSION_1, note="late")
    producer.add(topic)
    with broker.known_difference("Batch in sequence after a rejected batch"):
        send(producer, topic, version=VERSION_1, sequence=1, note="the next")
    producer.end()
    producer.add(topic)
    send(producer, topic, version=VERSION_1, sequence=5, note="with a gap")


@conversation
def other_records_during_an_open_transaction(broker: TransactionTranscript) -> None:
    topic = broker.topic()
    producer = broker.producer()
    producer.add(topic)
    send(producer, topic, version=VERSION_1, note="inside")
    for name in (producer.transactional_id, None):
        records = records_of(producer, sequence=1, is_transactional=False)
        request = produced(to_partition(records, topic=topic.name)).replace(transactional_id=name)
        broker.ask(request, 9, note="outside")
    producer.end()
    records = records_of(producer, sequence=1, is_transactional=False)
    broker.ask(produced(to_partition(records, topic=topic.name)), 9, note="after the end")
    read(broker, topic)


@conversation
def acks_of_transactional_batches(broker: TransactionTranscript) -> None:
    topic = broker.topic()
    for acks in (1, -1, 5):
        producer = broker.producer(f"id{acks}", version=5)
        send(producer, topic, version=VERSION_2, acks=acks, note=f"acks {acks}")
        send(producer, topic, version=VERSION_2, acks=acks, transactional_id=None, note="nameless")


# --- Visibility for readers


@conversation
def read_committed_waits_for_the_end_of_the_transaction(broker: TransactionTranscript) -> None:
    topic = broker.topic()
    one, other = broker.producer("one"), broker.producer("other")
    for producer in (one, other):
        producer.add(topic)
    one.send(topic)
    other.send(topic)
    read(broker, topic, 0, 1, 2, 3)
    look_up(broker, topic)
    other.end(committed=True)
    read(broker, topic, 0, 1, 2, 3, 4)
    look_up(broker, topic)
    one.end(committed=False)
    read(broker, topic, 0, 1, 2, 3, 4, 5)
    look_up(broker, topic)


@conversation
def responses_list_aborted_transactions(
    broker: TransactionTranscript,
) -> None:
    topic = broker.topic(configs={"index.interval.bytes": "1"})
    producers = [broker.producer(f"id{number}") for number in range(4)]
    for turn in range(3):
        for producer in producers:
            producer.add(topic)
            producer.send(topic)
        for number, producer in enumerate(producers):
            producer.end(committed=(number + turn) % 3 == 0)
    read(broker, topic, *range(0, 25, 2))
    with broker.known_difference("Aborted transactions after the returned records"):
        read(broker, topic, 0, 3, 9, 20, bytes_max=1)
        read(broker, topic, 0, 3, 9, 20, bytes_max=400)
    for version in (4, 10, 12, 13, 18):
        request = fetched(
            from_partition(0, topic=topic.name, topic_id=topic.id), isolation_level=COMMITTED
        )
        broker.ask(request, version)


@conversation
def records_deleted_under_an_open_transaction(broker: TransactionTranscript) -> None:
    topic = broker.topic()
    producer = broker.producer()
    producer.add(topic)
    producer.send(topic)
    producer.send(topic)
    producer.send(topic)
    delete_before(broker, topic, 2)
    read(broker, topic, 1, 2, 3)
    look_up(broker, topic, (-1, -2))
    producer.end(committed=False)
    read(broker, topic, 1, 2, 3, 4)
    look_up(broker, topic, (-1, -2))


@conversation
def markers_with_log_append_time(broker: TransactionTranscript) -> None:
    topic = broker.topic(configs={"message.timestamp.type": "LogAppendTime"})
    producer = broker.producer()
    producer.add(topic)
    producer.send(topic)
    producer.end(committed=False)
    read(broker, topic, 0, 1)


# --- Views for operators


@conversation
def producers_of_a_partition_are_described(broker: TransactionTranscript) -> None:
    topic = broker.topic(partitions=2)
    one, other = broker.producer("one"), broker.producer("other", version=5)
    describe = DescribeProducersRequest(
        topics=[
            TopicRequest(name=topic.name, partition_indexes=(0, 1, 7, -1)),
            TopicRequest(name="nowhere", partition_indexes=(0,)),
            TopicRequest(name="not a name!", partition_indexes=(0,)),
            TopicRequest(name="", partition_indexes=()),
        ]
    )
    broker.ask(describe, 0, note="nobody")
    one.add(topic)
    one.send(topic)
    broker.ask(describe, 0, note="one")
    other.send(topic, version=VERSION_2)
    other.send(topic, version=VERSION_2)
    broker.ask(describe.replace(topics=[describe.topics[0]]), 0, note="two")
    one.end()
    broker.ask(describe, 0, note="one has ended")
    other.end(version=5, committed=False)
    broker.ask(describe, 0, note="both have ended")
    broker.ask(DescribeProducersRequest(topics=()), 0, note="nothing asked")
