"""Reads records and committed offsets of a broker in this process, without a client."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.clock import SystemClock
from pykbroker.partitions.isolation import Isolation, Reader
from pykbroker.partitions.reading import refusal_of_read
from pykbroker.partitions.waiting import wait_for_bytes
from pykbroker.testing.rows import Record
from pykbroker_protocol.records.batch import iterate_batches
from pykbroker_storage.batch_scan import CorruptLog
from pykbroker_storage.log import LogClosed, OffsetOutOfRange

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pykbroker.broker import Broker
    from pykbroker.partitions.partition import Partition
    from pykbroker_protocol.records.batch import RecordBatch

READ_COMMITTED = Isolation.READ_COMMITTED
READ_BYTES_MAX = 4 * 1024 * 1024
SHOWN_MAX = 20


class UnknownTopic(LookupError):
    """Raised if the topic or the partition does not exist."""


class NotReadable(Exception):
    """Raised if the records are corrupt, cannot be read, or are deleted while they are read."""


class TooFewRecords(AssertionError):
    """Raised by `wait_for` on timeout; lists the records that exist."""


def partitions_of(broker: Broker, topic: str, *, only: int | None = None) -> Sequence[Partition]:
    image = broker.image.topics.get(topic)
    if image is None:
        known = ", ".join(sorted(broker.image.topics)) or "none"
        raise UnknownTopic(f"topic {topic!r} does not exist; known topics: {known}")
    indexes = [it.index for it in image.partitions if only in (None, it.index)]
    if not indexes:
        raise UnknownTopic(f"topic {topic!r} has no partition {only}")
    found = [broker.partitions.get(topic, it) for it in indexes]
    return [it for it in found if it is not None]


def records(
    broker: Broker, topic: str, *, partition: int | None = None, committed_only: bool = True
) -> list[Record]:
    """The records that a consumer gets from offset 'earliest', partition by partition."""
    isolation = Isolation.READ_COMMITTED if committed_only else Isolation.READ_UNCOMMITTED
    return [
        record
        for it in partitions_of(broker, topic, only=partition)
        for record in records_of(it, it.log.log_start_offset, isolation)
    ]


def records_of(partition: Partition, offset: int, isolation: Isolation) -> Iterator[Record]:
    for batch in batches_of(partition, offset, isolation):
        for record in batch.records():
            if record.offset >= offset:  # the log start offset can be inside a batch
                yield Record(
                    topic=partition.topic,
                    partition=partition.index,
                    offset=record.offset,
                    timestamp_ms=record.timestamp,
                    key=record.key,
                    value=record.value,
                    headers=record.headers,
                )


def batches_of(partition: Partition, offset: int, isolation: Isolation) -> Iterator[RecordBatch]:
    """Yields data batches. READ_COMMITTED leaves out aborted transactions."""
    aborted = AbortedTransactions(partition, offset, isolation)
    while True:
        end_offset = partition.end_for(Reader.CONSUMER, isolation, partition.last_stable_offset)
        try:
            found = partition.log.read(offset, bytes_max=READ_BYTES_MAX, end_offset=end_offset)
        except (OffsetOutOfRange, CorruptLog, OSError) as error:
            code = refusal_of_read(partition, offset, error).code
            raise NotReadable(f"{partition} at offset {offset}: {code.name}") from error
        if found is None:
            return
        for batch in iterate_batches(found.view):
            offset = batch.next_offset
            if not aborted.hides(batch):
                yield batch


class AbortedTransactions:
    """The batches that a read_committed consumer skips."""

    def __init__(self, partition: Partition, offset: int, isolation: Isolation) -> None:
        self._spans: list[tuple[int, int, int]] = []
        if isolation is Isolation.READ_COMMITTED:
            found = partition.log.aborted_transactions(offset, partition.last_stable_offset)
            self._spans = [(it.producer_id, it.first_offset, it.last_offset) for it in found]

    def hides(self, batch: RecordBatch) -> bool:
        if batch.is_control:
            return True
        return batch.is_transactional and any(
            batch.producer_id == producer_id and first <= batch.base_offset <= last
            for producer_id, first, last in self._spans
        )


async def wait_for(
    broker: Broker, topic: str, *, count: int, timeout_seconds: float
) -> list[Record]:
    """Returns all records once there are at least 'count'; raises TooFewRecords on timeout."""
    machine_clock = SystemClock()  # the timeout is real time, not the broker's time
    deadline = machine_clock.monotonic() + timeout_seconds
    reader = IncrementalReader(broker, topic)
    while len(reader.found) < count:
        left_seconds = deadline - machine_clock.monotonic()
        if left_seconds <= 0:
            raise TooFewRecords(too_few(topic, reader.found, count, timeout_seconds))
        await wait_for_bytes(reader.partitions, 1, left_seconds, clock=machine_clock)
        try:
            reader.read_new()
        except LogClosed:
            reason = f"topic {topic!r} was deleted or reset, or the broker stopped, during the wait"
            raise NotReadable(reason) from None
    return sorted(reader.found, key=lambda it: (it.partition, it.offset))


class IncrementalReader:
    """Collects the records of a topic and reads only new ones on each call."""

    def __init__(self, broker: Broker, topic: str) -> None:
        self.partitions = partitions_of(broker, topic)
        self.found: list[Record] = []
        self._next = {it.index: it.log.log_start_offset for it in self.partitions}
        self.read_new()

    def read_new(self) -> None:
        for partition in self.partitions:
            new = list(records_of(partition, self._next[partition.index], READ_COMMITTED))
            self.found += new
            if new:
                self._next[partition.index] = new[-1].offset + 1


def too_few(topic: str, found: Sequence[Record], count: int, seconds: float) -> str:
    lines = [f"{topic} has {len(found)} of {count} records after {seconds:g} s"]
    lines += [f"  {it}: key={it.key!r} value={it.value!r}" for it in found[-SHOWN_MAX:]]
    if len(found) > SHOWN_MAX:
        lines.insert(1, f"  … {len(found) - SHOWN_MAX} earlier records")
    return "\n".join(lines)


def offsets(broker: Broker, group_id: str) -> dict[tuple[str, int], int]:
    """The committed offsets of a group, by topic and partition."""
    return {
        (topic, partition): committed.offset
        for log in broker.groups.active()
        for topic, partitions in log.state.offsets.of_group(group_id).items()
        for partition, committed in partitions.items()
    }
