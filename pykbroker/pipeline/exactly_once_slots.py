"""One slot of a batch: a transaction that holds its records, and the mark that says so.

The transaction commits the number of the next batch as an offset of a group, at the partition that
has the slot's number. What makes it right is the order: taking the transactional id ends whatever
an earlier attempt had begun, for good or not at all, and only then is the mark read.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from confluent_kafka import TopicPartition

from pykbroker.pipeline.crash_points import CrashPoint, reached
from pykbroker.pipeline.exactly_once_output import (
    ANSWER_TIMEOUT_SECONDS,
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
"""How long an attempt whose slot was taken waits to see the other one succeed."""
SUCCESSOR_POLL_S: Final = 0.5
FULL_QUEUE_POLL_S: Final = 0.1


class Outgoing(NamedTuple):
    """A record on its way."""

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
    """Among how many this batch is shared out."""


def publish_slot(slot: SlotOfBatch, records: Iterable[Outgoing]) -> int:
    """How many records were published now; 0 if they had been before."""
    producer = slot.output.transactional_producer(slot.slot)
    reject_other_slot_count(slot)
    with slot.output.member(slot.output.batches_group) as marker:
        if is_published(marker, slot):
            return 0
        try:
            return publish(producer, marker, slot, records)
        except Exception as failure:
            if not is_fatal(failure):
                producer.abort_transaction(ANSWER_TIMEOUT_SECONDS)
                raise
            # Another attempt has taken the slot: a speculative one, or a restarted query's.
            wait_for_successor(marker, slot, failure)
            return 0


def publish(
    producer: Producer, marker: Consumer, slot: SlotOfBatch, records: Iterable[Outgoing]
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
    commit(producer, marker, [mark])
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


def commit(producer: Producer, marker: Consumer, marks: list[TopicPartition]) -> None:
    """Asked until it is known: a commit whose answer is late may be done already."""
    group = marker.consumer_group_metadata()
    retried(lambda: producer.send_offsets_to_transaction(marks, group, ANSWER_TIMEOUT_SECONDS))
    reached(CrashPoint.MARKED)
    retried(lambda: producer.commit_transaction(ANSWER_TIMEOUT_SECONDS))
    reached(CrashPoint.PUBLISHED)


def is_published(marker: Consumer, slot: SlotOfBatch) -> bool:
    mark = read_marks(marker, slot.output.target.topic, [slot.slot]).get(slot.slot)
    if mark is None:
        return False
    reject_old_batch(mark, slot.output, slot.batch_id)
    return mark.offset == slot.batch_id + 1


def wait_for_successor(marker: Consumer, slot: SlotOfBatch, failure: Exception) -> None:
    """To fail at once would make Spark try again, and take the slot from who took ours."""
    deadline = time.monotonic() + SUCCESSOR_TIMEOUT_SECONDS
    while not is_published(marker, slot):
        reject_other_slot_count(slot)
        if time.monotonic() > deadline:
            raise failure
        time.sleep(SUCCESSOR_POLL_S)


def reject_other_slot_count(slot: SlotOfBatch) -> None:
    """A run that lives on after its successor has shared the batches out anew must not go on."""
    with slot.output.member(slot.output.slots_group) as consumer:
        sharing = read_marks(consumer, slot.output.target.topic, [0]).get(0)
    if sharing is not None and sharing.words != str(slot.slots):
        raise CannotPublish(
            f"another run of this query shares its batches out among {sharing.words} slots, and"
            f" this one among {slot.slots}: is the query running twice?"
        )
