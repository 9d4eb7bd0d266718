"""What a query's output in a topic is called, and the marks that it leaves at the broker."""

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

Answer = TypeVar("Answer")

ANSWER_TIMEOUT_SECONDS: Final = 60.0
RETRY_S: Final = 0.1
RECORD_BYTES_MAX: Final = 1_000_000_000
"""As much as librdkafka allows; how large a record may be is for the broker to say."""
SLOT_COUNT_TIMEOUT_MS: Final = 30_000
"""Others wait for a number that was left half written; they have more patience than this."""
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
"""What brokers answer while groups change hands; librdkafka leaves it to its caller."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicOutput:
    """A query's output in a topic: what transactions and groups are named after."""

    target: TopicTarget
    query: str

    @property
    def name(self) -> str:
        parts = ("pykbroker", self.query, self.target.name, self.target.topic)
        return ".".join(part for part in parts if part)

    @property
    def batches_group(self) -> str:
        """Its offset at partition 3 is the next batch of slot 3."""
        return f"{self.name}.batches"

    @property
    def slots_group(self) -> str:
        """Its offset at partition 0 says among how many slots a batch is shared out."""
        return f"{self.name}.slots"

    @property
    def client(self) -> dict[str, Any]:
        known = librdkafka_properties(self.target.settings)
        return {**known, "bootstrap.servers": self.target.bootstrap}

    def transactional_producer(self, slot: int) -> Producer:
        """Whoever had this slot before has lost it when this returns."""
        return self._producer_called(str(slot), self.target.transaction_timeout_ms)

    def slot_count_producer(self) -> Producer:
        """The right to say among how many slots batches are shared out."""
        return self._producer_called("settling", SLOT_COUNT_TIMEOUT_MS)

    def _producer_called(self, name: str, timeout_ms: int) -> Producer:
        producer = Producer(
            {
                "message.max.bytes": RECORD_BYTES_MAX,
                "partitioner": "murmur2_random",  # as Java's clients choose one, and so Spark
                # librdkafka 2.16 begins anew when all brokers are gone for a moment, and then
                # never finds the coordinator of its open transaction again
                "metadata.recovery.strategy": "none",
                **self.client,
                "transactional.id": f"{self.name}.{name}",
                "transaction.timeout.ms": timeout_ms,
            }
        )
        retried(lambda: producer.init_transactions(ANSWER_TIMEOUT_SECONDS))
        return producer

    @contextmanager
    def member(self, group: str) -> Iterator[Consumer]:
        """Reads and writes a group's offsets, and never joins it."""
        consumer = Consumer({**self.client, "group.id": group, "enable.auto.commit": False})
        try:
            yield consumer
        finally:
            consumer.close()

    def partitions(self) -> int:
        """How many the topic has; asking makes it, where the broker makes topics by itself."""
        topic = self.target.topic
        found = Producer(self.client).list_topics(topic, ANSWER_TIMEOUT_SECONDS).topics[topic]
        if found.error is not None:
            raise CannotPublish(f"topic {topic}: {found.error.str()}")
        return len(found.partitions)


class Mark(NamedTuple):
    """An offset of a group, with the words beside it."""

    offset: int
    words: str


def reject_old_batch(mark: Mark, output: TopicOutput, batch_id: int) -> None:
    if mark.offset > batch_id + 1:
        raise CannotPublish(
            f"topic {output.target.topic} has batch {mark.offset - 1} of this query, and now"
            f" comes batch {batch_id}: the checkpoint is older than what was published."
            " Start the query with a new checkpoint, at the offsets from which it shall go on"
        )


def read_marks(consumer: Consumer, topic: str, partitions: Iterable[int]) -> dict[int, Mark]:
    """Those that are there; none of a transaction that may yet be taken back."""
    asked = [TopicPartition(topic, partition) for partition in partitions]
    found: dict[int, Mark] = {}
    for answer in retried(lambda: committed(consumer, asked)):
        if answer.offset >= 0:
            found[answer.partition] = Mark(answer.offset, answer.metadata or "")
    return found


def committed(consumer: Consumer, asked: list[TopicPartition]) -> list[TopicPartition]:
    answers = consumer.committed(asked, ANSWER_TIMEOUT_SECONDS)
    for answer in answers:
        if answer.error is not None:
            raise KafkaException(answer.error)
    return answers


def is_fatal(failure: Exception) -> bool:
    return isinstance(failure, KafkaException) and bool(failure.args[0].fatal())


def retried(ask: Callable[[], Answer]) -> Answer:
    """Asked again while a broker cannot answer yet; only for what may be repeated."""
    deadline = time.monotonic() + ANSWER_TIMEOUT_SECONDS
    while True:
        try:
            return ask()
        except KafkaException as failure:
            error = failure.args[0]
            is_transient = error.code() in RETRIABLE or error.retriable()
            if not is_transient or time.monotonic() > deadline:
                raise
        time.sleep(RETRY_S)
