"""Fetch: whole batches of each partition, as they lie in the log.

Limits are soft (KIP-74): the first partition that has records gives its first batch whole, however
large; the others give what still fits. A fetch that finds less than it wants waits for more. What
is sent are views of the mapped files: no record is copied.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from pykbroker.apis.fetch_sessions import NO_SESSION, FetchSession, WantedPartition, by_topic
from pykbroker.partitions.isolation import Isolation, Reader
from pykbroker.partitions.partition import BYTES_MAX, Fetched
from pykbroker.partitions.waiting import until_bytes
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

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable, Sequence

    from pykbroker.apis.node import Call
    from pykbroker.partitions.partition import Partition
    from pykbroker_protocol.messages.fetch import FetchPartition, FetchRequest
    from pykbroker_storage.aborted import AbortedTransaction as Aborted

TOPIC_IDS_SINCE_VERSION = 13
LEADER_ENDPOINTS_SINCE_VERSION = 16
DEBUGGING_REPLICA = -2
"""Apache's replica verification reads as this: a consumer that sees all there is."""

NO_RECORDS = b""
NO_EPOCH = -1


class Found(NamedTuple):
    """What one look at a partition gave."""

    wanted: WantedPartition
    partition: Partition | None
    outcome: Fetched | Refusal | EpochEndOffset


def handle(request: FetchRequest, call: Call) -> FetchResponse | Awaitable[FetchResponse]:
    node = call.node
    session = node.fetch_sessions.find(
        request,
        uses_topic_ids=call.version >= TOPIC_IDS_SINCE_VERSION,
        now_ms=node.clock.now_ms(),
    )
    if isinstance(session, Refusal):
        return FetchResponse(error_code=session.code, responses=())
    asked = asked_for(request, session)
    fetch = OneFetch(request, call, session, asked)
    found = fetch.look()
    missing = fetch.bytes_missing(found)
    return fetch.wait_and_answer(found, missing) if missing > 0 else fetch.answer(found)


def asked_for(
    request: FetchRequest, session: FetchSession | None
) -> list[tuple[WantedPartition, FetchPartition]]:
    if session is not None:
        return [(wanted, it.asked) for wanted, it in session.partitions.items()]
    return [
        (WantedPartition(topic.topic, topic.topic_id, asked.partition), asked)
        for topic in request.topics
        for asked in topic.partitions
    ]


class OneFetch:
    """One fetch from its request to its answer, with at most one wait between."""

    __slots__ = (
        "asked",
        "bytes_least",
        "bytes_max",
        "call",
        "isolation",
        "reader",
        "request",
        "session",
    )

    def __init__(
        self,
        request: FetchRequest,
        call: Call,
        session: FetchSession | None,
        asked: list[tuple[WantedPartition, FetchPartition]],
    ) -> None:
        self.request = request
        self.call = call
        self.session = session
        self.asked = asked
        self.bytes_max = max(0, min(request.max_bytes, call.node.settings.fetch_max_bytes))
        self.bytes_least = min(request.min_bytes, self.bytes_max)
        self.isolation = Isolation(request.isolation_level & 1)
        replica_id = max(request.replica_id, request.replica_state.replica_id, key=abs)
        self.reader = Reader.FOLLOWER if replica_id == DEBUGGING_REPLICA else Reader.CONSUMER

    def look(self) -> list[Found]:
        """Read every partition in turn, until the limits are reached."""
        bytes_left, is_first = self.bytes_max, True
        found = []
        for wanted, asked in self.asked:
            partition = self.resolve(wanted)
            if isinstance(partition, Refusal):
                found.append(Found(wanted, None, partition))
                continue
            outcome = self.read(partition, asked, bytes_left, is_first=is_first)
            found.append(Found(wanted, partition, outcome))
            if isinstance(outcome, Fetched) and outcome.records:
                bytes_left = max(0, bytes_left - len(outcome.records))
                is_first = False
        return found

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
        self, partition: Partition, asked: FetchPartition, bytes_left: int, *, is_first: bool
    ) -> Fetched | Refusal | EpochEndOffset:
        refusal = partition.epoch_refusal(max(NO_EPOCH, asked.current_leader_epoch))
        if refusal is not None:
            return refusal
        if asked.last_fetched_epoch >= 0:
            divergence = self.divergence(partition, asked)
            if divergence is not None:
                return divergence
        return partition.read(
            asked.fetch_offset,
            bytes_max=max(0, min(asked.partition_max_bytes, bytes_left)),
            isolation=self.isolation,
            first_batch_whole=is_first,
            reader=self.reader,
        )

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

    def bytes_missing(self, found: list[Found]) -> int:
        """So many are worth waiting for; none if there is enough, or the reader will not wait."""
        if self.request.max_wait_ms <= 0 or not self.asked:
            return 0
        if not all(isinstance(it.outcome, Fetched) for it in found):
            return 0
        missing = self.bytes_least - self.bytes_in(found)
        if missing <= 0 or missing == self.bytes_least:
            return missing
        return min(missing, self.bytes_least - self.bytes_in_reach(found))

    def bytes_in(self, found: list[Found]) -> int:
        return sum(len(it.outcome.records) for it in found if isinstance(it.outcome, Fetched))

    def bytes_in_reach(self, found: list[Found]) -> int:
        """What lies before the reader, whole batch or not: it is not kept waiting for that.

        A partition counts up to its own limit, but as more than anybody waits for where it goes
        on in another segment, for one answer holds records of one.
        """
        total = 0
        for it, (_, asked) in zip(found, self.asked, strict=True):
            assert it.partition is not None, "only what was read is counted"
            in_reach = it.partition.bytes_ahead(asked.fetch_offset, self.isolation, self.reader)
            limit = BYTES_MAX if in_reach == BYTES_MAX else max(0, asked.partition_max_bytes)
            total += min(in_reach, limit)
        return total

    async def wait_and_answer(self, found: list[Found], missing: int) -> FetchResponse:
        partitions = [it.partition for it in found if it.partition is not None]
        del found  # its views pin segments that may be deleted meanwhile
        await until_bytes(
            partitions, missing, self.request.max_wait_ms / 1000, isolation=self.isolation
        )
        return self.answer(self.look())

    # --- answering

    def answer(self, found: list[Found]) -> FetchResponse:
        session = self.session
        told = found if session is None else [it for it in found if self.has_news(it)]
        if session is not None:
            self.remember(session, told)
        return FetchResponse(
            session_id=NO_SESSION if session is None else session.session_id,
            responses=[
                FetchableTopicResponse(
                    topic=topic,
                    topic_id=topic_id,
                    partitions=[self.partition_data(it) for it in group],
                )
                for (topic, topic_id), group in groupby(told, key=lambda it: by_topic(it.wanted))
            ],
            node_endpoints=self.leader_endpoints(told),
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

    def leader_endpoints(self, told: Iterable[Found]) -> list[NodeEndpoint]:
        """Where the leaders are that a client has missed (KIP-951)."""
        if self.call.version < LEADER_ENDPOINTS_SINCE_VERSION:
            return []
        leaders = {
            it.partition.leadership.leader
            for it in told
            if it.partition is not None
            and isinstance(it.outcome, Refusal)
            and it.outcome.code in LEADER_ERRORS
        }
        return [
            NodeEndpoint(node_id=it.node_id, host=it.host, port=it.port, rack=it.rack)
            for it in self.call.endpoints_of(leaders)
        ]


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
