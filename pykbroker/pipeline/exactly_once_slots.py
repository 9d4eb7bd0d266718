"""Publishes one slot of a batch: a transaction with its records and a committed offset.

The transaction commits the number of the next batch as offset of a group, for the partition with
the number of the slot. The order matters: InitProducerId first completes or aborts the transaction
of an earlier attempt; the offset is read afterwards.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from confluent_kafka import TopicPartition

from pykbroker.pipeline.crash_points import CrashPoint, reached
from pykbroker.pipeline.exactly_once_output import (
    RESPONSE_TIMEOUT_SECONDS,
    abort,
    is_fatal,
    read_marks,
    reject_old_batch,
    retried,
)
from pykbroker.pipeline.topic_target import CannotPublish

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from confluent_kafka import Consumer, Producer

    from pykbroker.pipeline.exactly_once_output import TopicOutput

SUCCESSOR_TIMEOUT_SECONDS: Final = 60.0
"""How long a fenced attempt waits for the other attempt to succeed."""
SUCCESSOR_POLL_S: Final = 0.5
FULL_QUEUE_POLL_S: Final = 0.1


class Outgoing(NamedTuple):
    """A record to publish."""

    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]] = ()
    partition: int | None = None
    timestamp_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotOfBatch:
    output: TopicOutput
    batch_id: int
    slot: int
    slots: int
    """Number of slots of this batch."""


def publish_slot(slot: SlotOfBatch, records: Iterable[Outgoing]) -> int:
    """Publishes a slot and returns the record count; returns 0 if it is already published."""
    producer = slot.output.transactional_producer(slot.slot)
    reject_other_slot_count(slot)
    with slot.output.member(slot.output.batches_group) as consumer:
        if is_published(consumer, slot):
            return 0
        try:
            return publish(producer, consumer, slot, records)
        except Exception as failure:
            fenced = failure if is_fatal(failure) else abort(producer)
            if fenced is None:
                raise
            # Fenced by another attempt: a speculative task or a restarted query.
            wait_for_successor(consumer, slot, fenced)
            return 0


def publish(
    producer: Producer, consumer: Consumer, slot: SlotOfBatch, records: Iterable[Outgoing]
) -> int:
    count = 0
    topic = slot.output.target.topic
    producer.begin_transaction()
    for record in records:
        produce(producer, topic, record)
        count += 1
        reached(CrashPoint.PRODUCING)
    producer.flush()
    reached(CrashPoint.PRODUCED)
    mark = TopicPartition(topic, slot.slot, slot.batch_id + 1, metadata=str(slot.slots))
    commit(producer, consumer, [mark])
    return count


def produce(producer: Producer, topic: str, record: Outgoing) -> None:
    where: dict[str, Any] = {"headers": list(record.headers)}
    if record.partition is not None:
        where["partition"] = record.partition
    if record.timestamp_ms is not None:
        where["timestamp"] = record.timestamp_ms
    while True:
        try:
            producer.produce(topic, record.value, record.key, **where)
        except BufferError:
            producer.poll(FULL_QUEUE_POLL_S)
        else:
            producer.poll(0)
            return


def commit(producer: Producer, consumer: Consumer, marks: list[TopicPartition]) -> None:
    """Commits the transaction; retries, because a commit without a response may have succeeded."""
    group = consumer.consumer_group_metadata()
    retried(lambda: producer.send_offsets_to_transaction(marks, group, RESPONSE_TIMEOUT_SECONDS))
    reached(CrashPoint.MARKED)
    retried(lambda: producer.commit_transaction(RESPONSE_TIMEOUT_SECONDS))
    reached(CrashPoint.PUBLISHED)


def is_published(consumer: Consumer, slot: SlotOfBatch) -> bool:
    mark = read_marks(consumer, slot.output.target.topic, [slot.slot]).get(slot.slot)
    if mark is None:
        return False
    reject_old_batch(mark, slot.output, slot.batch_id)
    return mark.offset == slot.batch_id + 1


def wait_for_successor(consumer: Consumer, slot: SlotOfBatch, failure: Exception) -> None:
    """Waits until the other attempt has published the slot.

    An immediate error would make Spark retry the task, which would fence the other attempt.
    """
    deadline = time.monotonic() + SUCCESSOR_TIMEOUT_SECONDS
    while not is_published(consumer, slot):
        reject_other_slot_count(slot)
        if time.monotonic() > deadline:
            raise failure
        time.sleep(SUCCESSOR_POLL_S)


def reject_other_slot_count(slot: SlotOfBatch) -> None:
    """Raises if another run has changed the number of slots."""
    with slot.output.member(slot.output.slots_group) as consumer:
        mark = read_marks(consumer, slot.output.target.topic, [0]).get(0)
    if mark is not None and mark.metadata != str(slot.slots):
        raise CannotPublish(
            f"number of slots is {slot.slots} in this run and {mark.metadata} in another run of"
            " this query: is the query running twice?"
        )
