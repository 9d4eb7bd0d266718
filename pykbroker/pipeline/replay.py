"""From an archive back into a topic, each record once, however often it is begun.

A replay has a name, and by it a transactional id and a group: each transaction commits, with its
records, the original offsets at which the replay goes on.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final

from confluent_kafka import KafkaException, TopicPartition

from pykbroker.pipeline.archive.archived_files import archived_files
from pykbroker.pipeline.archive.archived_records import partitions_of, records_of
from pykbroker.pipeline.crash_points import CrashPoint, reached
from pykbroker.pipeline.exactly_once_output import (
    ANSWER_TIMEOUT_SECONDS,
    TopicOutput,
    is_fatal,
    read_marks,
)
from pykbroker.pipeline.exactly_once_slots import Outgoing, commit, produce

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from confluent_kafka import Consumer, Producer

    from pykbroker.pipeline.archive.archived_records import ArchivedRecord, Span
    from pykbroker.pipeline.topic_target import TopicTarget

TRANSACTION_RECORDS: Final = 5000
TRANSACTION_BYTES: Final = 64 << 20
"""Reached by one record at most: so much of keys and values is in memory at once."""
ONLY_SLOT: Final = 0
ORIGIN_HEADERS: Final = ("replay.topic", "replay.partition", "replay.offset", "replay.timestamp")


class CannotReplay(Exception):
    """The archive does not fit into the topic, or there is nothing of that name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    archive: Path
    topic: str
    """The archived one."""
    target: TopicTarget
    name: str
    """The same name goes on where it stopped; a new one begins anew."""
    since_ms: int | None = None
    until_ms: int | None = None
    """The first moment that is not replayed."""
    has_place_headers: bool = True
    transaction_records: int = TRANSACTION_RECORDS

    @property
    def output(self) -> TopicOutput:
        return TopicOutput(target=self.target, query=f"replay.{self.name}")


def replay(what: Replay, *, progress: Callable[[int], None] = lambda _: None) -> int:
    """How many records were replayed now; `progress` hears of it after each transaction."""
    output = what.output
    spans = archived_partitions(what)
    reject_narrow_topic(what, max(spans), output.partitions())
    producer = output.transactional_producer(ONLY_SLOT)
    with output.member(output.batches_group) as marker:
        starts = starts_of(marker, what.target.topic, spans)
        records = wanted(what, in_time_order(spans, starts))
        count = 0
        while chunk := list(next_transaction(records, what.transaction_records)):
            publish(producer, marker, what, chunk)
            count += len(chunk)
            progress(count)
    return count


def next_transaction(
    records: Iterator[ArchivedRecord], records_max: int
) -> Iterator[ArchivedRecord]:
    """As many as may be in memory at once, and one at least."""
    size = 0
    for record in islice(records, records_max):
        yield record
        size += len(record.key or b"") + len(record.value or b"")
        if size >= TRANSACTION_BYTES:
            return


def archived_partitions(what: Replay) -> Mapping[int, Sequence[Span]]:
    spans = partitions_of(file for file in archived_files(what.archive) if file.topic == what.topic)
    if not spans:
        raise CannotReplay(f"{what.archive} has no records of {what.topic}")
    return spans


def reject_narrow_topic(what: Replay, last_partition: int, partitions: int) -> None:
    if last_partition >= partitions:
        raise CannotReplay(
            f"{what.topic} has a partition {last_partition}, and {what.target.topic} only"
            f" {partitions} partitions: give it at least {last_partition + 1}"
        )


def starts_of(marker: Consumer, topic: str, partitions: Mapping[int, object]) -> dict[int, int]:
    marks = read_marks(marker, topic, partitions)
    return {it: marks[it].offset if it in marks else 0 for it in partitions}


def in_time_order(
    spans: Mapping[int, Sequence[Span]], starts: Mapping[int, int]
) -> Iterator[ArchivedRecord]:
    """Always from the partition whose next record is the oldest; each keeps its own order."""
    streams = {it: records_of(it, spans[it], starts[it]) for it in spans}
    heads = [(record.timestamp_ms, it, record) for it in spans for record in islice(streams[it], 1)]
    heapq.heapify(heads)
    while heads:
        _, partition, record = heads[0]
        yield record
        following = next(streams[partition], None)
        if following is None:
            heapq.heappop(heads)
        else:
            heapq.heapreplace(heads, (following.timestamp_ms, partition, following))


def wanted(what: Replay, records: Iterator[ArchivedRecord]) -> Iterator[ArchivedRecord]:
    for record in records:
        is_late_enough = what.since_ms is None or record.timestamp_ms >= what.since_ms
        if is_late_enough and (what.until_ms is None or record.timestamp_ms < what.until_ms):
            yield record


def publish(
    producer: Producer, marker: Consumer, what: Replay, records: Sequence[ArchivedRecord]
) -> None:
    producer.begin_transaction()
    try:
        for record in records:
            produce(producer, what.target.topic, outgoing(what, record))
            reached(CrashPoint.PRODUCING)
        producer.flush()
        reached(CrashPoint.PRODUCED)
        ends = {record.partition: record.offset + 1 for record in records}
        marks = [TopicPartition(what.target.topic, *end) for end in ends.items()]
        commit(producer, marker, marks)
    except KafkaException as failure:
        if is_fatal(failure):
            raise CannotReplay(
                f"another replay named {what.name} has begun and goes on in output of this one"
            ) from failure
        producer.abort_transaction(ANSWER_TIMEOUT_SECONDS)
        raise


def outgoing(what: Replay, record: ArchivedRecord) -> Outgoing:
    origin = (what.topic, record.partition, record.offset, record.timestamp_ms)
    own = zip(ORIGIN_HEADERS, (str(it).encode() for it in origin), strict=True)
    return Outgoing(
        key=record.key,
        value=record.value,
        headers=[*record.headers, *(own if what.has_place_headers else ())],
        partition=record.partition,
        # Librdkafka has no word for a moment before or at the epoch; the header tells it.
        timestamp_ms=record.timestamp_ms if record.timestamp_ms > 0 else None,
    )
