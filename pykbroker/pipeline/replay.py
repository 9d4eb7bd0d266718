"""Replays an archive into a topic; each record is written once, also after crashes.

The name of a replay determines its transactional id and its group. Each transaction contains
records and commits the original offsets at which the replay continues.
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
    TopicOutput,
    abort,
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
"""Limit for keys and values in memory; the last record of a transaction may exceed it."""
ONLY_SLOT: Final = 0
ORIGIN_HEADERS: Final = ("replay.topic", "replay.partition", "replay.offset", "replay.timestamp")


class CannotReplay(Exception):
    """Raised if the archive has no such topic, or if it cannot be written to the target topic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    archive: Path
    topic: str
    """The archived topic."""
    target: TopicTarget
    name: str
    """A replay with the same name continues; a new name starts from the beginning."""
    since_ms: int | None = None
    until_ms: int | None = None
    """Exclusive end of the time range."""
    has_place_headers: bool = True
    transaction_records: int = TRANSACTION_RECORDS

    @property
    def output(self) -> TopicOutput:
        return TopicOutput(target=self.target, query=f"replay.{self.name}")


def replay(request: Replay, *, progress: Callable[[int], None] = lambda _: None) -> int:
    """Replays the archive and returns the record count; reports it after each transaction."""
    output = request.output
    spans = archived_partitions(request)
    reject_narrow_topic(request, max(spans), output.partitions())
    producer = output.transactional_producer(ONLY_SLOT)
    with output.member(output.batches_group) as consumer:
        starts = starts_of(consumer, request.target.topic, spans)
        records = in_time_range(request, in_time_order(spans, starts))
        count = 0
        while chunk := list(next_transaction(records, request.transaction_records)):
            publish(producer, consumer, request, chunk)
            count += len(chunk)
            progress(count)
    return count


def next_transaction(
    records: Iterator[ArchivedRecord], records_max: int
) -> Iterator[ArchivedRecord]:
    """Yields the records of one transaction: at least one, within the limits."""
    size = 0
    for record in islice(records, records_max):
        yield record
        size += len(record.key or b"") + len(record.value or b"")
        if size >= TRANSACTION_BYTES:
            return


def archived_partitions(request: Replay) -> Mapping[int, Sequence[Span]]:
    spans = partitions_of(
        file for file in archived_files(request.archive) if file.topic == request.topic
    )
    if not spans:
        raise CannotReplay(f"{request.archive} does not contain records of topic {request.topic}")
    return spans


def reject_narrow_topic(request: Replay, last_partition: int, partitions: int) -> None:
    if last_partition >= partitions:
        raise CannotReplay(
            f"topic {request.target.topic} has {partitions} partition(s), but partition"
            f" {last_partition} of {request.topic} is archived: use at least {last_partition + 1}"
        )


def starts_of(consumer: Consumer, topic: str, partitions: Mapping[int, object]) -> dict[int, int]:
    marks = read_marks(consumer, topic, partitions)
    return {it: marks[it].offset if it in marks else 0 for it in partitions}


def in_time_order(
    spans: Mapping[int, Sequence[Span]], starts: Mapping[int, int]
) -> Iterator[ArchivedRecord]:
    """Merges the partitions by timestamp; the order within a partition is unchanged."""
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


def in_time_range(request: Replay, records: Iterator[ArchivedRecord]) -> Iterator[ArchivedRecord]:
    for record in records:
        is_after_start = request.since_ms is None or record.timestamp_ms >= request.since_ms
        if is_after_start and (request.until_ms is None or record.timestamp_ms < request.until_ms):
            yield record


def publish(
    producer: Producer, consumer: Consumer, request: Replay, records: Sequence[ArchivedRecord]
) -> None:
    producer.begin_transaction()
    try:
        for record in records:
            produce(producer, request.target.topic, outgoing(request, record))
            reached(CrashPoint.PRODUCING)
        producer.flush()
        reached(CrashPoint.PRODUCED)
        ends = {record.partition: record.offset + 1 for record in records}
        marks = [TopicPartition(request.target.topic, *end) for end in ends.items()]
        commit(producer, consumer, marks)
    except KafkaException as failure:
        if is_fatal(failure) or abort(producer) is not None:
            raise CannotReplay(
                f"fenced: another replay with the name {request.name} is running"
            ) from failure
        raise


def outgoing(request: Replay, record: ArchivedRecord) -> Outgoing:
    origin = (request.topic, record.partition, record.offset, record.timestamp_ms)
    headers = zip(ORIGIN_HEADERS, (str(it).encode() for it in origin), strict=True)
    return Outgoing(
        key=record.key,
        value=record.value,
        headers=[*record.headers, *(headers if request.has_place_headers else ())],
        partition=record.partition,
        # librdkafka cannot write timestamps up to the epoch; the header contains them.
        timestamp_ms=record.timestamp_ms if record.timestamp_ms > 0 else None,
    )
