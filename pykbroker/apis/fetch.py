"""Fetch: returns complete batches of partitions.

Limits are soft (KIP-74): the first partition with records returns at least its first batch, however
large; the others return what fits into the rest. A fetch waits until `min_bytes` are available or
`max_wait_ms` have passed. Responses contain views of mapped segments without a copy. Records that
are not in the page cache are read in a thread; only these are copied.
"""

from __future__ import annotations

from enum import Enum, auto
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from pykbroker.apis.answers import Deferred
from pykbroker.apis.fetch_sessions import NO_SESSION, FetchSession, PartitionKey, by_topic
from pykbroker.apis.slices import Slice, in_slices, next_turn
from pykbroker.partitions.disk_reads import READ_BYTES_MAX, read_from_disk
from pykbroker.partitions.isolation import Isolation, Reader
from pykbroker.partitions.partition import BYTES_MAX
from pykbroker.partitions.reading import Fetched, read, without_records
from pykbroker.partitions.waiting import wait_for_bytes
from pykbroker_protocol.compiler import SLICE_ELEMENTS
from pykbroker_protocol.errors import ErrorCode, Refusal
from pykbroker_protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from pykbroker_storage.filesystem import NotCached

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterator, Sequence

    from pykbroker.apis.node import Call
    from pykbroker.apis.slices import Slices
    from pykbroker.partitions.partition import Partition
    from pykbroker_protocol.messages.fetch import FetchPartition, FetchRequest
    from pykbroker_storage.transaction_index import AbortedTransaction as Aborted

TOPIC_IDS_SINCE_VERSION = 13
LEADER_ENDPOINTS_SINCE_VERSION = 16
DEBUGGING_REPLICA = -2
"""Used by Apache Kafka's replica verification tool, which reads up to the log end."""

PARTITIONS_PER_SLICE = 256
"""Reading a partition takes about 15 us, so a slice takes a few milliseconds."""
DISK_READS_MAX = 8
"""Disk reads per request; a slow disk performs about a hundred per second."""

NO_RECORDS = b""
NO_EPOCH = -1


class OnDisk(NamedTuple):
    """A partition whose records are not in the page cache."""

    key: PartitionKey
    partition: Partition
    requested: FetchPartition


class PartitionResult(NamedTuple):
    """The result of reading one partition."""

    key: PartitionKey
    partition: Partition | None
    outcome: Fetched | Refusal | EpochEndOffset


class SliceEnd(Enum):
    """The end of a slice of a large fetch."""

    REACHED = auto()


def handle(request: FetchRequest, call: Call) -> FetchResponse | Awaitable[FetchResponse]:
    node = call.node
    session = node.fetch_sessions.find(
        request,
        uses_topic_ids=call.version >= TOPIC_IDS_SINCE_VERSION,
        now_ms=node.clock.now_ms(),
    )
    if isinstance(session, Refusal):
        return FetchResponse(error_code=session.code, responses=())
    count = count_partitions(request)
    if count > SLICE_ELEMENTS:
        return Deferred(session, partial(serve_in_slices, request, call))
    if session is not None and count:
        for _ in session.update(request, lambda: False):
            raise AssertionError("the request fits into one slice")
        session = node.fetch_sessions.close_if_empty(session)
    fetch = FetchOperation(request, call, session)
    stopped = fetch.read_next()
    if stopped is not None:
        return Deferred(stopped, fetch.continue_and_answer)
    missing = fetch.bytes_missing()
    return fetch.wait_and_answer(missing) if missing > 0 else fetch.answer()


def count_partitions(request: FetchRequest) -> int:
    count = 0
    for topic in request.topics:
        count += len(topic.partitions)
    for removed in request.forgotten_topics_data:
        count += len(removed.partitions)
    return count


async def serve_in_slices(
    request: FetchRequest, call: Call, session: FetchSession | None
) -> FetchResponse:
    if session is not None:
        await in_slices(session.update(request, Slice().is_full))
        session = call.node.fetch_sessions.close_if_empty(session)
    return await FetchOperation(request, call, session).continue_and_answer(SliceEnd.REACHED)


def requested_partitions(
    request: FetchRequest, session: FetchSession | None
) -> Iterator[tuple[PartitionKey, FetchPartition]]:
    if session is not None:
        return ((key, it.requested) for key, it in list(session.partitions.items()))
    return (
        (PartitionKey(topic.topic, topic.topic_id, requested.partition), requested)
        for topic in request.topics
        for requested in topic.partitions
    )


class FetchOperation:
    """The state of one fetch request from reading to response."""

    __slots__ = (
        "bytes_left",
        "bytes_max",
        "bytes_min",
        "call",
        "has_errors",
        "is_first",
        "isolation",
        "reader",
        "request",
        "results",
        "seen",
        "session",
        "unread",
    )

    def __init__(self, request: FetchRequest, call: Call, session: FetchSession | None) -> None:
        self.request = request
        self.call = call
        self.session = session
        self.bytes_max = max(0, min(request.max_bytes, call.node.settings.fetch_max_bytes))
        self.bytes_min = min(request.min_bytes, self.bytes_max)
        self.isolation = Isolation(request.isolation_level & 1)
        replica_id = max(request.replica_id, request.replica_state.replica_id, key=abs)
        self.reader = Reader.FOLLOWER if replica_id == DEBUGGING_REPLICA else Reader.CONSUMER
        self.reset()

    def reset(self) -> None:
        """Drops the results: while the fetch waits, views must not pin segments being deleted."""
        self.unread = requested_partitions(self.request, self.session)
        self.results: list[PartitionResult] = []
        self.bytes_left = self.bytes_max
        self.is_first = True
        self.has_errors = False
        self.seen: dict[Partition, tuple[int, int]] = {}

    def read_next(self) -> OnDisk | SliceEnd | None:
        """Reads the next partitions; stops at records on disk and at the end of a slice."""
        left = PARTITIONS_PER_SLICE
        for key, requested in self.unread:
            partition = self.resolve(key)
            if isinstance(partition, Refusal):
                self.results.append(PartitionResult(key, None, partition))
                self.has_errors = True
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
            self.has_errors = True
            return
        self.seen[partition] = outcome.high_watermark, outcome.last_stable_offset
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
        return partition.epoch_refusal(requested.current_leader_epoch) or outcome

    def resolve(self, key: PartitionKey) -> Partition | Refusal:
        partitions = self.call.node.partitions
        topic: str | None = key.topic
        if self.call.version >= TOPIC_IDS_SINCE_VERSION:
            topic = partitions.topic_name(key.topic_id)
            if topic is None:
                return Refusal(ErrorCode.UNKNOWN_TOPIC_ID)
        partition = partitions.get(topic or "", key.number)
        return partition or Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def read(
        self, partition: Partition, requested: FetchPartition
    ) -> Fetched | Refusal | EpochEndOffset:
        refusal = partition.epoch_refusal(max(NO_EPOCH, requested.current_leader_epoch))
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

    def bytes_for(self, requested: FetchPartition) -> int:
        return max(0, min(requested.partition_max_bytes, self.bytes_left))

    def divergence(
        self, partition: Partition, requested: FetchPartition
    ) -> EpochEndOffset | Refusal | None:
        """Returns the end of the last common epoch if the reader's log diverges (KIP-595)."""
        epoch, end_offset = partition.end_of_epoch(requested.last_fetched_epoch)
        if epoch == NO_EPOCH:
            return Refusal(ErrorCode.OFFSET_OUT_OF_RANGE)  # no common epoch
        if epoch == requested.last_fetched_epoch and end_offset >= requested.fetch_offset:
            return None
        return EpochEndOffset(epoch=epoch, end_offset=end_offset)

    # --- waiting

    def bytes_missing(self) -> int:
        """Returns the number of bytes to wait for; 0 if the response is sent immediately."""
        if self.request.max_wait_ms <= 0 or not self.results or self.has_errors:
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
        requested_all = requested_partitions(self.request, self.session)
        for it, (_, requested) in zip(self.results, requested_all, strict=True):
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
        return await in_slices(self.answer_in_slices())

    async def wait_and_answer(self, missing: int) -> FetchResponse:
        clock = self.call.node.clock
        deadline = clock.monotonic() + self.request.max_wait_ms / 1000
        while missing > 0 and (seconds_left := deadline - clock.monotonic()) > 0:
            seen = self.seen
            self.reset()
            if not have_advanced(seen):  # other requests were served since the read
                await wait_for_bytes(
                    seen, missing, seconds_left, clock=clock, isolation=self.isolation
                )
                deadline = 0
            await self.continue_reading(self.read_next())
            missing = self.bytes_missing()
        return await in_slices(self.answer_in_slices())

    # --- answering

    def answer(self) -> FetchResponse:
        changed_results = self.changed_results(self.results)
        responses = [
            topic_response(topic, [self.partition_data(it) for it in group])
            for topic, group in groupby(changed_results, key=topic_of)
        ]
        return self.response_of(responses, self.leaders_of_errors(changed_results))

    def answer_in_slices(self) -> Slices[FetchResponse]:
        changed_results: list[PartitionResult] = []
        leaders: set[int] = set()
        for start in range(0, len(self.results), SLICE_ELEMENTS):
            slice_results = self.changed_results(self.results[start : start + SLICE_ELEMENTS])
            changed_results += slice_results
            leaders |= self.leaders_of_errors(slice_results)
            yield
        responses, count = [], Slice()
        for topic, group in groupby(changed_results, key=topic_of):
            partitions = yield from count.each(self.partition_data, list(group))
            responses.append(topic_response(topic, partitions))
        return self.response_of(responses, leaders)

    def changed_results(self, results: list[PartitionResult]) -> list[PartitionResult]:
        """Returns all results, or in a session only those that changed."""
        if self.session is None:
            return results
        changed_results = [it for it in results if self.has_changed(it)]
        self.update_session(self.session, changed_results)
        return changed_results

    def response_of(
        self, responses: list[FetchableTopicResponse], leaders: set[int]
    ) -> FetchResponse:
        return FetchResponse(
            session_id=NO_SESSION if self.session is None else self.session.session_id,
            responses=responses,
            node_endpoints=[
                NodeEndpoint(node_id=it.node_id, host=it.host, port=it.port, rack=it.rack)
                for it in self.call.endpoints_of(leaders)
            ]
            if leaders
            else (),
        )

    def has_changed(self, result: PartitionResult) -> bool:
        assert self.session is not None
        known = self.session.partitions.get(result.key)
        outcome = result.outcome
        if known is None or not isinstance(outcome, Fetched) or known.had_error:
            return True
        return bool(
            outcome.records
            or outcome.high_watermark != known.high_watermark
            or outcome.log_start_offset != known.log_start_offset
        )

    def update_session(self, session: FetchSession, changed_results: list[PartitionResult]) -> None:
        served = []
        for it in changed_results:
            known = session.partitions.get(it.key)
            if known is None:
                continue
            known.had_error = not isinstance(it.outcome, Fetched)
            if isinstance(it.outcome, Fetched):
                known.high_watermark = it.outcome.high_watermark
                known.log_start_offset = it.outcome.log_start_offset
                if it.outcome.records:
                    served.append(it.key)
        session.move_to_end(served)

    def partition_data(self, result: PartitionResult) -> PartitionData:
        outcome, index = result.outcome, result.key.number
        if isinstance(outcome, Fetched):
            return PartitionData(
                partition_index=index,
                error_code=ErrorCode.NONE,
                high_watermark=outcome.high_watermark,
                last_stable_offset=outcome.last_stable_offset,
                log_start_offset=outcome.log_start_offset,
                aborted_transactions=aborted_rows(outcome.aborted),
                records=outcome.records,
            )
        if isinstance(outcome, Refusal):
            return self.refused(result, outcome)
        assert result.partition is not None
        return PartitionData(
            partition_index=index,
            error_code=ErrorCode.NONE,
            high_watermark=result.partition.high_watermark,
            last_stable_offset=result.partition.last_stable_offset,
            log_start_offset=result.partition.log.log_start_offset,
            diverging_epoch=outcome,
            aborted_transactions=None,
            records=NO_RECORDS,
        )

    def refused(self, result: PartitionResult, refusal: Refusal) -> PartitionData:
        hint = LeaderIdAndEpoch()
        if result.partition is not None and refusal.code in LEADER_ERRORS:
            leadership = result.partition.leadership
            hint = LeaderIdAndEpoch(
                leader_id=leadership.leader, leader_epoch=leadership.leader_epoch
            )
        return PartitionData(
            partition_index=result.key.number,
            error_code=refusal.code,
            high_watermark=-1,
            current_leader=hint
            if self.call.version >= LEADER_HINT_SINCE_VERSION
            else LeaderIdAndEpoch(),
            aborted_transactions=None if result.partition is not None else (),
            records=NO_RECORDS,
        )

    def leaders_of_errors(self, changed_results: list[PartitionResult]) -> set[int]:
        """Returns the current leaders of partitions with leader errors (KIP-951)."""
        if not self.has_errors or self.call.version < LEADER_ENDPOINTS_SINCE_VERSION:
            return set()
        return {
            it.partition.leadership.leader
            for it in changed_results
            if it.partition is not None
            and isinstance(it.outcome, Refusal)
            and it.outcome.code in LEADER_ERRORS
        }


def topic_of(result: PartitionResult) -> tuple[str, bytes]:
    return by_topic(result.key)


def topic_response(
    topic: tuple[str, bytes], partitions: list[PartitionData]
) -> FetchableTopicResponse:
    return FetchableTopicResponse(topic=topic[0], topic_id=topic[1], partitions=partitions)


def have_advanced(seen: dict[Partition, tuple[int, int]]) -> bool:
    """Returns whether a high watermark or last stable offset has changed since the read."""
    return any((it.high_watermark, it.last_stable_offset) != seen[it] for it in seen)


def aborted_rows(aborted: Sequence[Aborted] | None) -> list[AbortedTransaction] | None:
    """Converts aborted transactions, whose records read_committed consumers skip."""
    if aborted is None:
        return None
    return [
        AbortedTransaction(producer_id=it.producer_id, first_offset=it.first_offset)
        for it in aborted
    ]


LEADER_ERRORS = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
LEADER_HINT_SINCE_VERSION = 12
