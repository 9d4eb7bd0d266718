"""The writer of the source topic and the reader of complete topics."""

from __future__ import annotations

import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from pykbroker.testing.history import Client, History, Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from random import Random

    from pykbroker.testing.history import Sending

WRITER_ID = "writer"
TIMEOUT_SECONDS = 60.0
PAUSE_SECONDS = 0.01
RECORDS_PER_ROUND_MAX = 10

Ends = dict[int, int]
"""For each partition the offset after its last record."""


class Writer:
    """A thread that writes unique values during crashes, until the context manager exits.

    Some transactions are aborted. Without transactions the producer is idempotent.
    """

    def __init__(
        self,
        bootstrap: str,
        history: History,
        topic: str,
        partitions: int,
        *,
        chance: Random,
        is_transactional: bool,
        abort_share: float = 0.2,
    ) -> None:
        self.history = history
        self.topic = topic
        self.partitions = partitions
        self.chance = chance
        self.abort_share = abort_share
        self.is_transactional = is_transactional
        self.count = 0
        self._settings: dict[str, object] = {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "linger.ms": 1,
            "reconnect.backoff.max.ms": 500,
            "log_level": 0,
        }
        if is_transactional:
            self._settings |= {"transactional.id": WRITER_ID, "transaction.timeout.ms": 10_000}
        self._failure: BaseException | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(2 * TIMEOUT_SECONDS)
        assert not self._thread.is_alive()
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        runs = 0
        try:
            while not self._stopping.is_set():
                runs += 1
                self._write(self.history.client(f"writer-{runs}"))
        except BaseException as failure:
            self._failure = failure
            raise

    def _write(self, client: Client) -> None:
        """Writes until `stop`, or until a transaction fails."""
        producer = Producer(self._settings)
        if self.is_transactional:
            again(lambda: producer.init_transactions(TIMEOUT_SECONDS))
        while not self._stopping.is_set():
            if not self.is_transactional:
                self._send(client, producer)
            elif not self._send_in_a_transaction(client, producer):
                return
            self._stopping.wait(PAUSE_SECONDS)

    def _send_in_a_transaction(self, client: Client, producer: Producer) -> bool:
        transaction = client.begun()
        producer.begin_transaction()
        is_sent = self._send(client, producer)
        if is_sent and self.chance.random() >= self.abort_share:
            transaction.committing()
            try:
                again(producer.commit_transaction)
            except KafkaException as error:
                transaction.unanswered(repr(error))
                return False
            transaction.committed()
            return True
        transaction.aborting()
        try:
            again(producer.abort_transaction)
        except KafkaException:
            return False
        transaction.aborted()
        return True

    def _send(self, client: Client, producer: Producer) -> bool:
        """Sends records; returns whether all are acknowledged."""
        under_way: list[Sending] = []
        acknowledged: list[int] = []
        for _ in range(self.chance.randint(1, RECORDS_PER_ROUND_MAX)):
            partition = self.chance.randrange(self.partitions)
            self.count += 1
            value = f"{self.count}"
            sending = client.sending(self.topic, value, partition=partition)
            under_way.append(sending)
            producer.produce(
                self.topic,
                value,
                partition=partition,
                on_delivery=callback(sending, acknowledged),
            )
        producer.flush(TIMEOUT_SECONDS)
        return len(acknowledged) == len(under_way)


def callback(sending: Sending, acknowledged: list[int]) -> Callable[[Any, Any], None]:
    def delivered(error: Any, record: Any) -> None:
        if error is not None:
            sending.unanswered(str(error))
        else:
            sending.sent(partition=record.partition(), offset=record.offset())
            acknowledged.append(sending.send)

    return delivered


def again(act: Callable[[], None]) -> None:
    """Repeats an action while librdkafka reports a retriable error."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while True:
        try:
            return act()
        except KafkaException as error:
            if not error.args[0].retriable() or time.monotonic() > deadline:
                raise


def end_transactions(bootstrap: str, transactional_ids: Iterable[str]) -> None:
    """Aborts open transactions of ended producers without waiting for their timeout."""
    for transactional_id in transactional_ids:
        producer = Producer(
            {"bootstrap.servers": bootstrap, "transactional.id": transactional_id, "log_level": 0}
        )
        again(partial(producer.init_transactions, TIMEOUT_SECONDS))


def read_all(bootstrap: str, client: Client, topic: str, partitions: int) -> Ends:
    """Reads a topic to its end with the client's isolation level; returns the end offsets."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "readers of all",
            "enable.auto.commit": False,
            "isolation.level": str(client.isolation),
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 50,
        }
    )
    client.assigned(*((topic, it, 0) for it in range(partitions)))
    consumer.assign([TopicPartition(topic, it, 0) for it in range(partitions)])
    ends = dict.fromkeys(range(partitions), 0)
    try:
        stops = _read_to_the_stops(consumer, client, ends)
    finally:
        consumer.close()
    assert stops == high_watermarks(bootstrap, topic, partitions), f"{topic} is not readable"
    return ends


def high_watermarks(bootstrap: str, topic: str, partitions: int) -> Ends:
    """Returns the high watermarks."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "readers of all",
            "isolation.level": "read_uncommitted",
        }
    )
    try:
        places = [TopicPartition(topic, it) for it in range(partitions)]
        return {it.partition: consumer.get_watermark_offsets(it, 10)[1] for it in places}
    finally:
        consumer.close()


def _read_to_the_stops(consumer: Consumer, client: Client, ends: Ends) -> dict[int, int]:
    stops: dict[int, int] = {}
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while len(stops) < len(ends):
        assert time.monotonic() < deadline, f"only {stops} could be read to the end"
        records: list[Record] = []
        polled: list[Any] = consumer.consume(1000, 0.1)
        for found in polled:
            error = found.error()
            if error is None:
                records.append(record_of(found))
                ends[found.partition()] = found.offset() + 1
            elif error.code() == KafkaError._PARTITION_EOF:
                stops[found.partition()] = found.offset()
        client.polled(records)
    return stops


def record_of(found: Any) -> Record:
    return Record(found.topic(), found.partition(), found.offset(), found.value().decode())


def committed(bootstrap: str, group: str, topic: str, partitions: int) -> Ends:
    """Returns the committed offsets of a group."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    try:
        found = consumer.committed([TopicPartition(topic, it) for it in range(partitions)], 10)
    finally:
        consumer.close()
    return {it.partition: max(it.offset, 0) for it in found}
