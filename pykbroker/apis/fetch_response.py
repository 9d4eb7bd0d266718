"""The response to a Fetch request, made from the results of its partitions."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from pykbroker.apis.fetch_sessions import NO_SESSION, FetchSession, PartitionKey, by_topic
from pykbroker.apis.slices import Slice
from pykbroker.partitions.reading import Fetched
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

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pykbroker.apis.node import Call
    from pykbroker.apis.slices import Slices
    from pykbroker.partitions.partition import Partition
    from pykbroker_storage.transaction_index import AbortedTransaction as Aborted

LEADER_HINT_SINCE_VERSION = 12
LEADER_ENDPOINTS_SINCE_VERSION = 16
LEADER_ERRORS = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)

NO_RECORDS = b""


class PartitionResult(NamedTuple):
    """The result of reading one partition."""

    key: PartitionKey
    partition: Partition | None
    outcome: Fetched | Refusal | EpochEndOffset


class FetchAnswer:
    """Makes the response to one fetch request."""

    __slots__ = ("call", "has_errors", "session")

    def __init__(self, call: Call, session: FetchSession | None) -> None:
        self.call = call
        self.session = session
        self.has_errors = False

    def answer(self, results: list[PartitionResult]) -> FetchResponse:
        changed_results = self.changed_results(results)
        responses = [
            topic_response(topic, [self.partition_data(it) for it in group])
            for topic, group in groupby(changed_results, key=topic_of)
        ]
        return self.response_of(responses, self.leaders_of_errors(changed_results))

    def answer_in_slices(self, results: list[PartitionResult]) -> Slices[FetchResponse]:
        changed_results: list[PartitionResult] = []
        leaders: set[int] = set()
        for start in range(0, len(results), SLICE_ELEMENTS):
            slice_results = self.changed_results(results[start : start + SLICE_ELEMENTS])
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
        current = None
        if self.call.version >= LEADER_HINT_SINCE_VERSION:
            current = self.leader_after(result)
        return PartitionData(
            partition_index=result.key.number,
            error_code=refusal.code,
            high_watermark=-1,
            current_leader=LeaderIdAndEpoch()
            if current is None
            else LeaderIdAndEpoch(leader_id=current[0], leader_epoch=current[1]),
            aborted_transactions=None if result.partition is not None else (),
            records=NO_RECORDS,
        )

    def leaders_of_errors(self, changed_results: list[PartitionResult]) -> set[int]:
        """Returns the current leaders of partitions with leader errors (KIP-951)."""
        if not self.has_errors or self.call.version < LEADER_ENDPOINTS_SINCE_VERSION:
            return set()
        found = map(self.leader_after, changed_results)
        return {current[0] for current in found if current is not None}

    def leader_after(self, result: PartitionResult) -> tuple[int, int] | None:
        """Returns leader and leader epoch of a partition that this broker does not lead."""
        outcome, key, node = result.outcome, result.key, self.call.node
        if not isinstance(outcome, Refusal) or outcome.code not in LEADER_ERRORS:
            return None
        topic = node.partitions.topic_name(key.topic_id) if not key.topic else key.topic
        return None if topic is None else node.leader_of(topic, key.number)


def topic_of(result: PartitionResult) -> tuple[str, bytes]:
    return by_topic(result.key)


def topic_response(
    topic: tuple[str, bytes], partitions: list[PartitionData]
) -> FetchableTopicResponse:
    return FetchableTopicResponse(topic=topic[0], topic_id=topic[1], partitions=partitions)


def aborted_rows(aborted: Sequence[Aborted] | None) -> list[AbortedTransaction] | None:
    """Converts aborted transactions, whose records read_committed consumers skip."""
    if aborted is None:
        return None
    return [
        AbortedTransaction(producer_id=it.producer_id, first_offset=it.first_offset)
        for it in aborted
    ]
