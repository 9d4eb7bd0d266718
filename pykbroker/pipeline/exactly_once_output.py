"""Names and clients of a query's output to a topic, and the offsets that record its progress."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from pykbroker.pipeline.client_properties import librdkafka_properties
from pykbroker.pipeline.topic_target import CannotPublish

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pykbroker.pipeline.topic_target import TopicTarget

Response = TypeVar("Response")

RESPONSE_TIMEOUT_SECONDS: Final = 60.0
RETRY_S: Final = 0.1
RECORD_BYTES_MAX: Final = 1_000_000_000
"""Maximum of librdkafka; the broker limits the size of records."""
SLOT_COUNT_TIMEOUT_MS: Final = 30_000
"""After a crash, other runs wait until this transaction is aborted; shorter than their timeout."""
RETRIABLE: Final = frozenset(
    {
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.UNSTABLE_OFFSET_COMMIT,
        KafkaError._TRANSPORT,  # noqa: SLF001  # its public name
        KafkaError._WAIT_COORD,  # noqa: SLF001  # likewise
    }
)
"""Errors while a group coordinator moves; librdkafka does not retry them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicOutput:
    """Output of a query to a topic. Its name is the prefix of transactional ids and group ids."""

    target: TopicTarget
    query: str

    @property
    def name(self) -> str:
        parts = ("pykbroker", self.query, self.target.name, self.target.topic)
        return ".".join(part for part in parts if part)

    @property
    def batches_group(self) -> str:
        """Group whose offset of partition 3 is the next batch of slot 3."""
        return f"{self.name}.batches"

    @property
    def slots_group(self) -> str:
        """Group whose offset metadata of partition 0 is the number of slots."""
        return f"{self.name}.slots"

    @property
    def client(self) -> dict[str, Any]:
        known = librdkafka_properties(self.target.settings)
        return {**known, "bootstrap.servers": self.target.bootstrap}

    def transactional_producer(self, slot: int) -> Producer:
        """Returns the producer of a slot and fences the previous one."""
        return self._producer(str(slot), self.target.transaction_timeout_ms)

    def slot_count_producer(self) -> Producer:
        """Returns the producer that may change the number of slots and fences the previous one."""
        return self._producer("settling", SLOT_COUNT_TIMEOUT_MS)

    def _producer(self, name: str, timeout_ms: int) -> Producer:
        producer = Producer(
            {
                "message.max.bytes": RECORD_BYTES_MAX,
                "partitioner": "murmur2_random",  # like the Java client and Spark
                # Otherwise librdkafka 2.16 bootstraps again when all brokers are unreachable, and
                # does not find the coordinator of its open transaction afterwards.
                "metadata.recovery.strategy": "none",
                **self.client,
                "transactional.id": f"{self.name}.{name}",
                "transaction.timeout.ms": timeout_ms,
            }
        )
        retried(lambda: producer.init_transactions(RESPONSE_TIMEOUT_SECONDS))
        return producer

    @contextmanager
    def member(self, group: str) -> Iterator[Consumer]:
        """Returns a consumer that reads and commits offsets of a group without joining it."""
        consumer = Consumer({**self.client, "group.id": group, "enable.auto.commit": False})
        try:
            yield consumer
        finally:
            consumer.close()

    def partitions(self) -> int:
        """Returns the partition count; creates the topic if the broker auto-creates topics."""
        topic = self.target.topic
        found = Producer(self.client).list_topics(topic, RESPONSE_TIMEOUT_SECONDS).topics[topic]
        if found.error is not None:
            raise CannotPublish(f"topic {topic}: {found.error.str()}")
        return len(found.partitions)


class Mark(NamedTuple):
    """A committed offset with its metadata."""

    offset: int
    metadata: str


def reject_old_batch(mark: Mark, output: TopicOutput, batch_id: int) -> None:
    if mark.offset > batch_id + 1:
        raise CannotPublish(
            f"topic {output.target.topic} contains batch {mark.offset - 1} of this query, but the"
            f" checkpoint continues with batch {batch_id}: it is older than the output. Start the"
            " query with a new checkpoint and with the offsets where it must continue"
        )


def read_marks(consumer: Consumer, topic: str, partitions: Iterable[int]) -> dict[int, Mark]:
    """Returns the committed offsets; waits for open transactions to end."""
    requested = [TopicPartition(topic, partition) for partition in partitions]
    found: dict[int, Mark] = {}
    for committed_offset in retried(lambda: committed(consumer, requested)):
        if committed_offset.offset >= 0:
            mark = Mark(committed_offset.offset, committed_offset.metadata or "")
            found[committed_offset.partition] = mark
    return found


def committed(consumer: Consumer, requested: list[TopicPartition]) -> list[TopicPartition]:
    offsets = consumer.committed(requested, RESPONSE_TIMEOUT_SECONDS)
    for offset in offsets:
        if offset.error is not None:
            raise KafkaException(offset.error)
    return offsets


def is_fatal(failure: Exception) -> bool:
    return isinstance(failure, KafkaException) and bool(failure.args[0].fatal())


def abort(producer: Producer) -> Exception | None:
    """Aborts the transaction; returns the error if another attempt has fenced the producer."""
    try:
        producer.abort_transaction(RESPONSE_TIMEOUT_SECONDS)
    except KafkaException as failure:
        if not is_fatal(failure):
            raise
        return failure
    return None


def retried(request: Callable[[], Response]) -> Response:
    """Returns the result of the request; repeats it on retriable errors until the timeout."""
    deadline = time.monotonic() + RESPONSE_TIMEOUT_SECONDS
    while True:
        try:
            return request()
        except KafkaException as failure:
            error = failure.args[0]
            is_transient = error.code() in RETRIABLE or error.retriable()
            if not is_transient or time.monotonic() > deadline:
                raise
        time.sleep(RETRY_S)
