"""One fetch request from reading to response: reads partitions, and waits for more bytes."""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from pykbroker.apis.fetch_response import FetchAnswer, PartitionResult
from pykbroker.apis.fetch_sessions import FetchSession, PartitionKey
from pykbroker.apis.slices import in_slices, next_turn
from pykbroker.partitions.disk_reads import READ_BYTES_MAX, read_from_disk
from pykbroker.partitions.isolation import Isolation, Reader
from pykbroker.partitions.partition import BYTES_MAX
from pykbroker.partitions.reading import Fetched, read, without_records
from pykbroker.partitions.waiting import wait_for_bytes
from pykbroker_protocol.compiler import SLICE_ELEMENTS
from pykbroker_protocol.errors import ErrorCode, Refusal
from pykbroker_protocol.messages.fetch import (
    EpochEndOffset,
    FetchResponse,
)
from pykbroker_storage.filesystem import NotCached

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pykbroker.apis.node import Call
    from pykbroker.partitions.partition import Partition
    from pykbroker_protocol.messages.fetch import FetchPartition, FetchRequest

TOPIC_IDS_SINCE_VERSION = 13

PARTITIONS_PER_SLICE = 256
"""Reading a partition takes about 15 us, so a slice takes a few milliseconds."""
DISK_READS_MAX = 8
"""Disk reads per request; a slow disk performs about a hundred per second."""

NO_EPOCH = -1


class OnDisk(NamedTuple):
    """A partition whose records are not in the page cache."""

    key: PartitionKey
    partition: Partition
    requested: FetchPartition


SeenEnd: TypeAlias = "tuple[int, int] | int"
"""High watermark and last stable offset for a consumer; log end offset for other readers."""


class SliceEnd(Enum):
    """The end of a slice of a large fetch."""

    REACHED = auto()


class FetchOperation:
    """The state of one fetch request from reading to response."""

    __slots__ = (
        "answering",
        "bytes_left",
        "bytes_max",
        "bytes_min",
        "call",
        "is_first",
        "isolation",
        "needs_leader",
        "reader",
        "request",
        "results",
        "seen",
        "session",
        "unread",
    )

    def __init__(
        self,
        request: FetchRequest,
        call: Call,
        session: FetchSession | None,
        reader: Reader,
        *,
        needs_leader: bool,
    ) -> None:
        self.request = request
        self.call = call
        self.session = session
        self.answering = FetchAnswer(call, session)
        self.bytes_max = max(0, min(request.max_bytes, call.node.settings.fetch_max_bytes))
        self.bytes_min = min(request.min_bytes, self.bytes_max)
        self.isolation = Isolation(request.isolation_level & 1)
        self.reader = reader
        self.needs_leader = needs_leader
        self.reset()

    def reset(self) -> None:
        """Drops the results: while the fetch waits, views must not pin segments being deleted."""
        self.unread = self.requested_partitions()
        self.results: list[PartitionResult] = []
        self.bytes_left = self.bytes_max
        self.is_first = True
        self.answering.has_errors = False
        self.seen: dict[Partition, SeenEnd] = {}

    def requested_partitions(self) -> Iterator[tuple[PartitionKey, FetchPartition]]:
        session = self.session
        if session is not None:
            return ((key, it.requested) for key, it in list(session.partitions.items()))
        return (
            (PartitionKey(topic.topic, topic.topic_id, requested.partition), requested)
            for topic in self.request.topics
            for requested in topic.partitions
        )

    def read_next(self) -> OnDisk | SliceEnd | None:
        """Reads the next partitions; stops at records on disk and at the end of a slice."""
        left = PARTITIONS_PER_SLICE
        for key, requested in self.unread:
            partition = self.resolve(key)
            if isinstance(partition, Refusal):
                self.results.append(PartitionResult(key, None, partition))
                self.answering.has_errors = True
            else:
                try:
                    outcome = self.read(partition, requested)
                except NotCached:
                    return OnDisk(key, partition, requested)
                self.add_result(key, partition, outcome)
            left -= 1
            if not left:
                return SliceEnd.REACHED
        return None

    def add_result(
        self,
        key: PartitionKey,
        partition: Partition,
        outcome: Fetched | Refusal | EpochEndOffset,
    ) -> None:
        self.results.append(PartitionResult(key, partition, outcome))
        if not isinstance(outcome, Fetched):
            self.answering.has_errors = True
            return
        if self.reader is Reader.CONSUMER:
            self.seen[partition] = outcome.high_watermark, outcome.last_stable_offset
        else:
            self.seen[partition] = partition.log.log_end_offset
        if outcome.records:
            self.bytes_left -= len(outcome.records)
            self.is_first = False

    async def continue_reading(self, stopped: OnDisk | SliceEnd | None) -> None:
        """Continues after `read_next` has stopped: with the next slice, or by reading from disk.

        After `DISK_READS_MAX` reads or `READ_BYTES_MAX` bytes the remaining partitions on disk get
        no records in this response. In a session, the next fetch starts with them.
        """
        reads_left, bytes_left = DISK_READS_MAX, READ_BYTES_MAX
        while stopped is not None:
            if isinstance(stopped, OnDisk):
                key, partition, _ = stopped
                outcome: Fetched | Refusal
                if reads_left and bytes_left > 0:
                    outcome = await self.read_from_disk(stopped, bytes_left)
                    reads_left -= 1
                    bytes_left -= len(outcome.records) if isinstance(outcome, Fetched) else 0
                else:
                    outcome = without_records(partition, self.isolation, self.reader)
                self.add_result(key, partition, outcome)
            else:
                await next_turn()
            stopped = self.read_next()

    async def read_from_disk(self, on_disk: OnDisk, bytes_left: int) -> Fetched | Refusal:
        key, partition, requested = on_disk
        outcome = await read_from_disk(
            partition,
            requested.fetch_offset,
            bytes_max=min(self.bytes_for(requested), bytes_left),
            isolation=self.isolation,
            first_batch_whole=self.is_first,
            reader=self.reader,
        )
        if self.resolve(key) is not partition:  # deleted meanwhile
            return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return self.epoch_refusal(partition, requested) or outcome

    def resolve(self, key: PartitionKey) -> Partition | Refusal:
        partitions = self.call.node.partitions
        topic: str | None = key.topic
        if self.call.version >= TOPIC_IDS_SINCE_VERSION:
            topic = partitions.topic_name(key.topic_id)
            if topic is None:
                return Refusal(ErrorCode.UNKNOWN_TOPIC_ID)
        partition = partitions.get(topic or "", key.number)
        if partition is None:
            return Refusal(self.call.node.error_without_replica(topic or "", key.number))
        return partition

    def read(
        self, partition: Partition, requested: FetchPartition
    ) -> Fetched | Refusal | EpochEndOffset:
        refusal = self.epoch_refusal(partition, requested)
        if refusal is not None:
            return refusal
        if requested.last_fetched_epoch >= 0:
            divergence = self.divergence(partition, requested)
            if divergence is not None:
                return divergence
        return read(
            partition,
            requested.fetch_offset,
            bytes_max=self.bytes_for(requested),
            isolation=self.isolation,
            first_batch_whole=self.is_first,
            reader=self.reader,
        )

    def epoch_refusal(self, partition: Partition, requested: FetchPartition) -> Refusal | None:
        epoch = max(NO_EPOCH, requested.current_leader_epoch)
        return partition.epoch_refusal(epoch, needs_leader=self.needs_leader)

    def bytes_for(self, requested: FetchPartition) -> int:
        return max(0, min(requested.partition_max_bytes, self.bytes_left))

    def divergence(
        self, partition: Partition, requested: FetchPartition
    ) -> EpochEndOffset | Refusal | None:
        """Returns the end of the last common epoch if the reader's log diverges (KIP-595)."""
        epoch, end_offset = partition.end_of_epoch(requested.last_fetched_epoch)
        if epoch == NO_EPOCH or requested.fetch_offset < partition.log.log_start_offset:
            return Refusal(ErrorCode.OFFSET_OUT_OF_RANGE)
        if epoch == requested.last_fetched_epoch and end_offset >= requested.fetch_offset:
            return None
        return EpochEndOffset(epoch=epoch, end_offset=end_offset)

    # --- waiting

    def bytes_missing(self) -> int:
        """Returns the number of bytes to wait for; 0 if the response is sent immediately."""
        if self.request.max_wait_ms <= 0 or not self.results or self.answering.has_errors:
            return 0
        missing = self.bytes_min - (self.bytes_max - self.bytes_left)
        if missing <= 0 or missing == self.bytes_min or len(self.results) > SLICE_ELEMENTS:
            return missing
        return min(missing, self.bytes_min - self.bytes_in_reach())

    def bytes_in_reach(self) -> int:
        """Returns the available bytes from the fetch offsets on, including partial batches.

        Each partition counts up to its own limit. A partition that continues in another segment
        counts as `BYTES_MAX`: a response contains records of one segment, so waiting is useless.
        """
        total = 0
        for it, (_, requested) in zip(self.results, self.requested_partitions(), strict=True):
            assert it.partition is not None, "a fetch with errors does not wait"
            in_reach = it.partition.bytes_ahead(requested.fetch_offset, self.isolation, self.reader)
            limit = BYTES_MAX if in_reach == BYTES_MAX else max(0, requested.partition_max_bytes)
            total += min(in_reach, limit)
            if total >= self.bytes_min:
                break
        return total

    async def continue_and_answer(self, stopped: OnDisk | SliceEnd) -> FetchResponse:
        await self.continue_reading(stopped)
        missing = self.bytes_missing()
        if missing > 0:
            return await self.wait_and_answer(missing)
        return await self.answer()

    async def answer(self) -> FetchResponse:
        """A few results are answered at once, without turns of the event loop."""
        if len(self.results) <= SLICE_ELEMENTS:
            return self.answering.answer(self.results)
        return await in_slices(self.answering.answer_in_slices(self.results))

    async def wait_and_answer(self, missing: int) -> FetchResponse:
        clock = self.call.node.clock
        deadline = clock.monotonic() + self.request.max_wait_ms / 1000
        while missing > 0 and (seconds_left := deadline - clock.monotonic()) > 0:
            seen = self.seen
            self.reset()
            if not have_advanced(seen, self.reader):  # other requests were served since the read
                await wait_for_bytes(
                    seen,
                    missing,
                    seconds_left,
                    clock=clock,
                    isolation=self.isolation,
                    reader=self.reader,
                )
                deadline = 0
            await self.continue_reading(self.read_next())
            missing = self.bytes_missing()
        return await self.answer()


def have_advanced(seen: dict[Partition, SeenEnd], reader: Reader) -> bool:
    """Returns whether the end that this reader may see has changed since the read."""
    if reader is Reader.CONSUMER:
        return any((it.high_watermark, it.last_stable_offset) != seen[it] for it in seen)
    return any(it.log.log_end_offset != seen[it] for it in seen)
