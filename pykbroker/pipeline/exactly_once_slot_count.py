"""Among how many slots a batch is shared out: never among two numbers at once.

A batch that was published in part goes on with the number that it began with. To change the
number, take the right to from whoever may have been changing it, say so at the broker, take all
slots from whoever may still hold one, look whether the batch has begun, and settle. A run that
takes a slot back reads there that the number has changed, and gives up; one that was about to
settle finds that it may no longer.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from confluent_kafka import KafkaException, TopicPartition

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
    from confluent_kafka import Consumer, Producer

    from pykbroker.pipeline.exactly_once_output import TopicOutput

CHANGING: Final = "changing"
FENCING_THREADS: Final = 16
"""So many slots are taken at a time."""


def decide_slot_count(output: TopicOutput, batch_id: int) -> int:
    """How many slots this batch has: as many as wanted, unless it began with another number."""
    partitions = output.partitions()
    wanted = output.target.slots_of(partitions)
    topic = output.target.topic
    with output.member(output.slots_group) as sharing:
        settled = read_marks(sharing, topic, [0]).get(0)
        if settled is not None and settled.words == str(wanted):
            return wanted
        settler = output.slot_count_producer()
        write(settler, sharing, topic, batch_id, CHANGING)
        fence_all_slots(output, partitions)
        begun = slots_of_published(output, batch_id, partitions)
        reached(CrashPoint.CHANGING_SLOTS)
        write(settler, sharing, topic, batch_id, str(begun or wanted))
    return begun or wanted


def write(settler: Producer, sharing: Consumer, topic: str, batch_id: int, words: str) -> None:
    """In a transaction: the broker hears only whoever took the right to settle last."""
    mark = TopicPartition(topic, 0, batch_id, metadata=words)
    group = sharing.consumer_group_metadata()
    try:
        settler.begin_transaction()
        retried(lambda: settler.send_offsets_to_transaction([mark], group, ANSWER_TIMEOUT_SECONDS))
        retried(lambda: settler.commit_transaction(ANSWER_TIMEOUT_SECONDS))
    except KafkaException as failure:
        if not is_fatal(failure):
            raise
        raise CannotPublish(
            "another run of this query has begun to settle its slots: is the query running twice?"
        ) from failure


def fence_all_slots(output: TopicOutput, partitions: int) -> None:
    """There were never more slots than partitions."""
    with ThreadPoolExecutor(min(partitions, FENCING_THREADS)) as pool:
        list(pool.map(lambda slot: output.transactional_producer(slot) and None, range(partitions)))


def slots_of_published(output: TopicOutput, batch_id: int, partitions: int) -> int | None:
    with output.member(output.batches_group) as marker:
        marks = read_marks(marker, output.target.topic, range(partitions))
    for mark in marks.values():
        reject_old_batch(mark, output, batch_id)
    begun = {mark.words for mark in marks.values() if mark.offset == batch_id + 1}
    if len(begun) > 1:
        raise CannotPublish(
            f"batch {batch_id} was shared out among {' and '.join(sorted(begun))} slots at once"
        )
    return int(begun.pop()) if begun else None
