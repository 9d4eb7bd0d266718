"""Fetch: whole batches of each partition, as they lie in the log.

Limits are soft (KIP-74): the first partition that has records gives its first batch whole, however
large; the others give what still fits. A fetch that finds less than it wants waits for more. What
is sent are views of the mapped files: no record is copied. Records that are not in the page cache
are read in a thread, and only these are copied.
"""

from __future__ import annotations

from enum import Enum, auto
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from pykbroker.apis.answers import Deferred
from pykbroker.apis.fetch_sessions import NO_SESSION, FetchSession, WantedPartition, by_topic
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
"""Apache's replica verification reads as this: a consumer that sees all there is."""

PARTITIONS_PER_SLICE = 256
"""To read one takes about 15 us: others are served after a few milliseconds."""
DISK_READS_MAX = 8
"""For one request; a slow disk does a hundred a second."""

NO_RECORDS = b""
NO_EPOCH = -1


class OnDisk(NamedTuple):
    """A partition whose records have to be read from the disk."""

    wanted: WantedPartition
    partition: Partition
    asked: FetchPartition


class Found(NamedTuple):
    """What one look at a partition gave."""

    wanted: WantedPartition
    partition: Partition | None
    outcome: Fetched | Refusal | EpochEndOffset


class Pause(Enum):
    """A slice of a large fetch is done."""

    PAUSE = auto()


def handle(request: FetchRequest, call: Call) -> FetchResponse | Awaitable[FetchResponse]:
    node = call.node
    session = node.fetch_sessions.find(
        request,
        uses_topic_ids=call.version >= TOPIC_IDS_SINCE_VERSION,
        now_ms=node.clock.now_ms(),
    )
    if isinstance(session, Refusal):
        return FetchResponse(error_code=session.code, responses=())
    named = partitions_named(request)
    if named > SLICE_ELEMENTS:
        return Deferred(session, partial(serve_in_slices, request, call))
    if session is not None and named:
        for _ in session.update(request, lambda: False):
            raise AssertionError("it is one slice")
        session = node.fetch_sessions.unless_empty(session)
    fetch = OneFetch(request, call, session)
    stopped = fetch.look()
    if stopped is not None:
        return Deferred(stopped, fetch.look_on_and_answer)
    missing = fetch.bytes_missing()
    return fetch.wait_and_answer(missing) if missing > 0 else fetch.answer()


def partitions_named(request: FetchRequest) -> int:
    named = 0
    for topic in request.topics:
        named += len(topic.partitions)
    for forgotten in request.forgotten_topics_data:
        named += len(forgotten.partitions)
    return named


async def serve_in_slices(
    request: FetchRequest, call: Call, session: FetchSession | None
) -> FetchResponse:
    if session is not None:
        await in_slices(session.update(request, Slice().is_full))
        session = call.node.fetch_sessions.unless_empty(session)
    return await OneFetch(request, call, session).look_on_and_answer(Pause.PAUSE)


def asked_for(
    request: FetchRequest, session: FetchSession | None
) -> Iterator[tuple[WantedPartition, FetchPartition]]:
    if session is not None:
        return ((wanted, it.asked) for wanted, it in list(session.partitions.items()))
    return (
        (WantedPartition(topic.topic, topic.topic_id, asked.partition), asked)
        for topic in request.topics
        for asked in topic.partitions
    )


class OneFetch:
    """One fetch from its request to its answer: it waits at most once for new records."""

    __slots__ = (
        "bytes_least",
        "bytes_left",
        "bytes_max",
        "call",
        "found",
        "has_errors",
        "is_first",
        "isolation",
        "reader",
        "request",
        "seen",
        "session",
        "unread",
    )

    def __init__(self, request: FetchRequest, call: Call, session: FetchSession | None) -> None:
        self.request = request
        self.call = call
        self.session = session
        self.bytes_max = max(0, min(request.max_bytes, call.node.settings.fetch_max_bytes))
        self.bytes_least = min(request.min_bytes, self.bytes_max)
        self.isolation = Isolation(request.isolation_level & 1)
        replica_id = max(request.replica_id, request.replica_state.replica_id, key=abs)
        self.reader = Reader.FOLLOWER if replica_id == DEBUGGING_REPLICA else Reader.CONSUMER
        self.begin()

    def begin(self) -> None:
        """Nothing is read yet, or no longer: views pin segments that may be deleted meanwhile."""
        self.unread = asked_for(self.request, self.session)
        self.found: list[Found] = []
        self.bytes_left = self.bytes_max
        self.is_first = True
        self.has_errors = False
        self.seen: dict[Partition, tuple[int, int]] = {}

    def look(self) -> OnDisk | Pause | None:
        """Read the next partitions, until the limits are reached or nothing more is in memory."""
        left = PARTITIONS_PER_SLICE
        for wanted, asked in self.unread:
            partition = self.resolve(wanted)
            if isinstance(partition, Refusal):
                self.found.append(Found(wanted, None, partition))
                self.has_errors = True
            else:
                try:
                    outcome = self.read(partition, asked)
                except NotCached:
                    return OnDisk(wanted, partition, asked)
                self.note(wanted, partition, outcome)
            left -= 1
            if not left:
                return Pause.PAUSE
        return None

    def note(
        self,
        wanted: WantedPartition,
        partition: Partition,
        outcome: Fetched | Refusal | EpochEndOffset,
    ) -> None:
        self.found.append(Found(wanted, partition, outcome))
        if not isinstance(outcome, Fetched):
            self.has_errors = True
            return
        self.seen[partition] = outcome.high_watermark, outcome.last_stable_offset
        if outcome.records:
            self.bytes_left -= len(outcome.records)
            self.is_first = False

    async def look_on(self, stopped: OnDisk | Pause | None) -> None:
        """Read on: the next slice, or from the disk.

        After so many reads from the disk, or bytes, other requests have their turn: partitions
        behind are answered without records. In a session they come first next time.
        """
        reads_left, bytes_left = DISK_READS_MAX, READ_BYTES_MAX
        while stopped is not None:
            if isinstance(stopped, OnDisk):
                wanted, partition, _ = stopped
                outcome: Fetched | Refusal
                if reads_left and bytes_left > 0:
                    outcome = await self.read_from_disk(stopped, bytes_left)
                    reads_left -= 1
                    bytes_left -= len(outcome.records) if isinstance(outcome, Fetched) else 0
                else:
                    outcome = without_records(partition, self.isolation, self.reader)
                self.note(wanted, partition, outcome)
            else:
                await next_turn()
            stopped = self.look()

    async def read_from_disk(self, on_disk: OnDisk, bytes_left: int) -> Fetched | Refusal:
        wanted, partition, asked = on_disk
        outcome = await read_from_disk(
            partition,
            asked.fetch_offset,
            bytes_max=min(self.bytes_for(asked), bytes_left),
            isolation=self.isolation,
            first_batch_whole=self.is_first,
            reader=self.reader,
        )
        if self.resolve(wanted) is not partition:  # deleted meanwhile
            return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return partition.epoch_refusal(asked.current_leader_epoch) or outcome

    def resolve(self, wanted: WantedPartition) -> Partition | Refusal:
        partitions = self.call.node.partitions
        topic: str | None = wanted.topic
        if self.call.version >= TOPIC_IDS_SINCE_VERSION:
            topic = partitions.topic_name(wanted.topic_id)
            if topic is None:
                return Refusal(ErrorCode.UNKNOWN_TOPIC_ID)
        partition = partitions.get(topic or "", wanted.number)
        return partition or Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def read(
        self, partition: Partition, asked: FetchPartition
    ) -> Fetched | Refusal | EpochEndOffset:
        refusal = partition.epoch_refusal(max(NO_EPOCH, asked.current_leader_epoch))
        if refusal is not None:
            return refusal
        if asked.last_fetched_epoch >= 0:
            divergence = self.divergence(partition, asked)
            if divergence is not None:
                return divergence
        return read(
            partition,
            asked.fetch_offset,
            bytes_max=self.bytes_for(asked),
            isolation=self.isolation,
            first_batch_whole=self.is_first,
            reader=self.reader,
        )

    def bytes_for(self, asked: FetchPartition) -> int:
        return max(0, min(asked.partition_max_bytes, self.bytes_left))

    def divergence(
        self, partition: Partition, asked: FetchPartition
    ) -> EpochEndOffset | Refusal | None:
        """Where the reader's history parts from ours, if it does (KIP-595)."""
        epoch, end_offset = partition.end_of_epoch(asked.last_fetched_epoch)
        if epoch == NO_EPOCH:
            return Refusal(ErrorCode.OFFSET_OUT_OF_RANGE)  # none of its history is ours
        if epoch == asked.last_fetched_epoch and end_offset >= asked.fetch_offset:
            return None
        return EpochEndOffset(epoch=epoch, end_offset=end_offset)

    # --- waiting

    def bytes_missing(self) -> int:
        """So many are worth waiting for; none if there is enough, or the reader will not wait."""
        if self.request.max_wait_ms <= 0 or not self.found or self.has_errors:
            return 0
        missing = self.bytes_least - (self.bytes_max - self.bytes_left)
        if missing <= 0 or missing == self.bytes_least or len(self.found) > SLICE_ELEMENTS:
            return missing
        return min(missing, self.bytes_least - self.bytes_in_reach())

    def bytes_in_reach(self) -> int:
        """What lies before the reader, whole batch or not: it is not kept waiting for that.

        A partition counts up to its own limit, but as more than anybody waits for where it goes
        on in another segment, for one answer holds records of one.
        """
        total = 0
        asked_for_all = asked_for(self.request, self.session)
        for it, (_, asked) in zip(self.found, asked_for_all, strict=True):
            assert it.partition is not None, "only what was read is counted"
            in_reach = it.partition.bytes_ahead(asked.fetch_offset, self.isolation, self.reader)
            limit = BYTES_MAX if in_reach == BYTES_MAX else max(0, asked.partition_max_bytes)
            total += min(in_reach, limit)
            if total >= self.bytes_least:
                break
        return total

    async def look_on_and_answer(self, stopped: OnDisk | Pause) -> FetchResponse:
        await self.look_on(stopped)
        missing = self.bytes_missing()
        if missing > 0:
            return await self.wait_and_answer(missing)
        return await in_slices(self.answer_in_slices())

    async def wait_and_answer(self, missing: int) -> FetchResponse:
        clock = self.call.node.clock
        deadline = clock.monotonic() + self.request.max_wait_ms / 1000
        while missing > 0 and (seconds_left := deadline - clock.monotonic()) > 0:
            seen = self.seen
            self.begin()
            if not have_moved(seen):  # other requests were served since it was read
                await wait_for_bytes(
                    seen, missing, seconds_left, clock=clock, isolation=self.isolation
                )
                deadline = 0
            await self.look_on(self.look())
            missing = self.bytes_missing()
        return await in_slices(self.answer_in_slices())

    # --- answering

    def answer(self) -> FetchResponse:
        told = self.told(self.found)
        responses = [
            topic_response(topic, [self.partition_data(it) for it in group])
            for topic, group in groupby(told, key=topic_of)
        ]
        return self.response_of(responses, self.leaders_missed(told))

    def answer_in_slices(self) -> Slices[FetchResponse]:
        told: list[Found] = []
        leaders: set[int] = set()
        for start in range(0, len(self.found), SLICE_ELEMENTS):
            slice_told = self.told(self.found[start : start + SLICE_ELEMENTS])
            told += slice_told
            leaders |= self.leaders_missed(slice_told)
            yield
        responses, count = [], Slice()
        for topic, group in groupby(told, key=topic_of):
            partitions = yield from count.each(self.partition_data, list(group))
            responses.append(topic_response(topic, partitions))
        return self.response_of(responses, leaders)

    def told(self, found: list[Found]) -> list[Found]:
        """All of it, or what is news in a session."""
        if self.session is None:
            return found
        told = [it for it in found if self.has_news(it)]
        self.remember(self.session, told)
        return told

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

    def has_news(self, found: Found) -> bool:
        assert self.session is not None
        known = self.session.partitions.get(found.wanted)
        outcome = found.outcome
        if known is None or not isinstance(outcome, Fetched) or known.had_error:
            return True
        return bool(
            outcome.records
            or outcome.high_watermark != known.high_watermark
            or outcome.log_start_offset != known.log_start_offset
        )

    def remember(self, session: FetchSession, told: list[Found]) -> None:
        served = []
        for it in told:
            known = session.partitions.get(it.wanted)
            if known is None:
                continue
            known.had_error = not isinstance(it.outcome, Fetched)
            if isinstance(it.outcome, Fetched):
                known.high_watermark = it.outcome.high_watermark
                known.log_start_offset = it.outcome.log_start_offset
                if it.outcome.records:
                    served.append(it.wanted)
        session.put_last(served)

    def partition_data(self, found: Found) -> PartitionData:
        outcome, index = found.outcome, found.wanted.number
        if isinstance(outcome, Fetched):
            return PartitionData(
                partition_index=index,
                error_code=ErrorCode.NONE,
                high_watermark=outcome.high_watermark,
                last_stable_offset=outcome.last_stable_offset,
                log_start_offset=outcome.log_start_offset,
                aborted_transactions=told_of(outcome.aborted),
                records=outcome.records,
            )
        if isinstance(outcome, Refusal):
            return self.refused(found, outcome)
        assert found.partition is not None
        return PartitionData(
            partition_index=index,
            error_code=ErrorCode.NONE,
            high_watermark=found.partition.high_watermark,
            last_stable_offset=found.partition.last_stable_offset,
            log_start_offset=found.partition.log.log_start_offset,
            diverging_epoch=outcome,
            aborted_transactions=None,
            records=NO_RECORDS,
        )

    def refused(self, found: Found, refusal: Refusal) -> PartitionData:
        hint = LeaderIdAndEpoch()
        if found.partition is not None and refusal.code in LEADER_ERRORS:
            leadership = found.partition.leadership
            hint = LeaderIdAndEpoch(
                leader_id=leadership.leader, leader_epoch=leadership.leader_epoch
            )
        return PartitionData(
            partition_index=found.wanted.number,
            error_code=refusal.code,
            high_watermark=-1,
            current_leader=hint
            if self.call.version >= LEADER_HINT_SINCE_VERSION
            else LeaderIdAndEpoch(),
            aborted_transactions=None if found.partition is not None else (),
            records=NO_RECORDS,
        )

    def leaders_missed(self, told: list[Found]) -> set[int]:
        """The leaders that a client has missed, whose endpoints it gets (KIP-951)."""
        if not self.has_errors or self.call.version < LEADER_ENDPOINTS_SINCE_VERSION:
            return set()
        return {
            it.partition.leadership.leader
            for it in told
            if it.partition is not None
            and isinstance(it.outcome, Refusal)
            and it.outcome.code in LEADER_ERRORS
        }


def topic_of(found: Found) -> tuple[str, bytes]:
    return by_topic(found.wanted)


def topic_response(
    topic: tuple[str, bytes], partitions: list[PartitionData]
) -> FetchableTopicResponse:
    return FetchableTopicResponse(topic=topic[0], topic_id=topic[1], partitions=partitions)


def have_moved(seen: dict[Partition, tuple[int, int]]) -> bool:
    """Whether a high watermark or last stable offset is another than when it was looked at."""
    return any((it.high_watermark, it.last_stable_offset) != seen[it] for it in seen)


def told_of(aborted: Sequence[Aborted] | None) -> list[AbortedTransaction] | None:
    """Readers of committed records pass over what these producers wrote, up to their markers."""
    if aborted is None:
        return None
    return [
        AbortedTransaction(producer_id=it.producer_id, first_offset=it.first_offset)
        for it in aborted
    ]


LEADER_ERRORS = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
LEADER_HINT_SINCE_VERSION = 12
