"""Decides the number of slots of a batch. A batch never has two numbers.

A batch that is published in part keeps its number. A change of the number takes five steps:
fence other runs that change it, commit the metadata `changing`, fence the producers of all slots,
read whether the batch is published in part, and commit the number. A run that acquires a slot
later reads the new number and fails; a run that was about to commit another number is fenced.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from confluent_kafka import KafkaException, TopicPartition

from pykbroker.pipeline.crash_points import CrashPoint, reached
from pykbroker.pipeline.exactly_once_output import (
    RESPONSE_TIMEOUT_SECONDS,
    is_fatal,
    read_marks,
    reject_old_batch,
    retried,
)
from pykbroker.pipeline.topic_target import CannotPublish

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Producer

    from pykbroker.pipeline.exactly_once_output import TopicOutput

CHANGING: Final = "changing"
FENCING_THREADS: Final = 16
"""Number of slots fenced at the same time."""


def decide_slot_count(output: TopicOutput, batch_id: int) -> int:
    """Returns the configured number of slots, or the number of a partly published batch."""
    partitions = output.partitions()
    configured = output.target.slots_of(partitions)
    topic = output.target.topic
    with output.member(output.slots_group) as consumer:
        current = read_marks(consumer, topic, [0]).get(0)
        if current is not None and current.metadata == str(configured):
            return configured
        producer = output.slot_count_producer()
        write(producer, consumer, topic, batch_id, CHANGING)
        fence_all_slots(output, partitions)
        published = slots_of_published(output, batch_id, partitions)
        reached(CrashPoint.CHANGING_SLOTS)
        write(producer, consumer, topic, batch_id, str(published or configured))
    return published or configured


def write(producer: Producer, consumer: Consumer, topic: str, batch_id: int, metadata: str) -> None:
    """Commits the metadata in a transaction; fails if another run has fenced this producer."""
    mark = TopicPartition(topic, 0, batch_id, metadata=metadata)
    group = consumer.consumer_group_metadata()
    try:
        producer.begin_transaction()
        retried(
            lambda: producer.send_offsets_to_transaction([mark], group, RESPONSE_TIMEOUT_SECONDS)
        )
        retried(lambda: producer.commit_transaction(RESPONSE_TIMEOUT_SECONDS))
    except KafkaException as failure:
        if not is_fatal(failure):
            raise
        raise CannotPublish(
            "another run of this query changes the number of slots: is the query running twice?"
        ) from failure


def fence_all_slots(output: TopicOutput, partitions: int) -> None:
    """Fences the producers of all slots: one per partition at most."""
    with ThreadPoolExecutor(min(partitions, FENCING_THREADS)) as pool:
        list(pool.map(lambda slot: output.transactional_producer(slot) and None, range(partitions)))


def slots_of_published(output: TopicOutput, batch_id: int, partitions: int) -> int | None:
    with output.member(output.batches_group) as consumer:
        marks = read_marks(consumer, output.target.topic, range(partitions))
    for mark in marks.values():
        reject_old_batch(mark, output, batch_id)
    published = {mark.metadata for mark in marks.values() if mark.offset == batch_id + 1}
    if len(published) > 1:
        raise CannotPublish(
            f"batch {batch_id} is published with {' and with '.join(sorted(published))} slots"
        )
    return int(published.pop()) if published else None
