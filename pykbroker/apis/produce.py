"""Produce: appends one batch to each partition; errors are per partition.

acks=0 has no response, acks=1 is answered after the append by the leader, acks=all after all
in-sync replicas have the records. A flush required by `flush.messages` completes first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from pykbroker.apis.answers import Deferred, ProtocolViolation
from pykbroker.apis.joining_transactions import (
    NO_REFUSALS,
    TOPIC_IDS_SINCE_VERSION,
    holds_transactional,
    join_transaction,
)
from pykbroker.partitions.admission import Malformed, RecordsRefused
from pykbroker.partitions.waiting import wait_for_commit
from pykbroker_protocol.errors import ErrorCode, Refusal
from pykbroker_protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from pykbroker_storage.log import AppendResult

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from pykbroker.apis.joining_transactions import Refusals
    from pykbroker.apis.node import Call
    from pykbroker.clock import Clock
    from pykbroker.partitions.leader import Appending
    from pykbroker.partitions.partition import Partition
    from pykbroker_protocol.messages.produce import (
        PartitionProduceData,
        ProduceRequest,
        TopicProduceData,
    )

ALL, NONE = -1, 0
LEADER_HINT_SINCE_VERSION = 10

NO_OFFSET = -1
ERROR_WITHOUT_RESPONSE = "{} in a Produce with acks=0, which has no response"
ERRORS_WITHOUT_LOG_START = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.RECORD_LIST_TOO_LARGE,
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.KAFKA_STORAGE_ERROR,
)


def handle(
    request: ProduceRequest, call: Call
) -> ProduceResponse | Awaitable[ProduceResponse | None] | None:
    if holds_transactional(request):
        return produce_in_transaction(request, call)
    return produce(request, call)


def produce(
    request: ProduceRequest, call: Call, refusals: Refusals = NO_REFUSALS
) -> ProduceResponse | Awaitable[ProduceResponse | None] | None:
    if request.acks not in (ALL, NONE, 1):
        return refuse_all(request, ErrorCode.INVALID_REQUIRED_ACKS)
    pending = PendingResponse(request.acks, request.timeout_ms, call)
    response = ProduceResponse(
        responses=[
            append_topic(topic, request.acks, call, pending, refusals)
            for topic in request.topic_data
        ]
    )
    if pending.appending:
        return Deferred(response, pending.answer_when_appended, mutes=True)
    if pending.unsettled:
        return Deferred(response, pending.answer_when_settled, expected=response)
    return finished(response, request.acks, call)


def finished(response: ProduceResponse, acks: int, call: Call) -> ProduceResponse | None:
    if acks == NONE:
        close_on_error(response)
        return None
    return with_leaders(response, call) if call.version >= LEADER_HINT_SINCE_VERSION else response


def produce_in_transaction(
    request: ProduceRequest, call: Call
) -> ProduceResponse | Awaitable[ProduceResponse | None] | None:
    if request.transactional_id is None:
        return refuse_all(request, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    joined = join_transaction(request, call)
    if isinstance(joined, ErrorCode):
        return refuse_all(request, joined)
    if isinstance(joined, Mapping):
        return produce(request, call, joined)
    return Deferred(joined, partial(produce_when_joined, request, call))


async def produce_when_joined(
    request: ProduceRequest, call: Call, joined: Awaitable[Refusals]
) -> ProduceResponse | None:
    outcome = produce(request, call, await joined)
    if outcome is None or isinstance(outcome, ProduceResponse):
        return outcome
    return await outcome


def close_on_error(response: ProduceResponse) -> None:
    """Closes the connection after an error with acks=0, so that the client refreshes metadata."""
    for topic in response.responses:
        for answer in topic.partition_responses:
            if answer.error_code != ErrorCode.NONE:
                name = next(it.name for it in ErrorCode if it == answer.error_code)
                raise ProtocolViolation(ERROR_WITHOUT_RESPONSE.format(name))


def append_topic(
    topic: TopicProduceData,
    acks: int,
    call: Call,
    pending: PendingResponse,
    refusals: Refusals,
) -> TopicProduceResponse:
    name: str | None = topic.name
    if call.version >= TOPIC_IDS_SINCE_VERSION:
        name = call.node.partitions.topic_name(topic.topic_id)
    return TopicProduceResponse(
        name=topic.name,
        topic_id=topic.topic_id,
        partition_responses=[
            append(name, it, acks, call, pending, refusals=refusals) for it in topic.partition_data
        ],
    )


def append(
    topic: str | None,
    request: PartitionProduceData,
    acks: int,
    call: Call,
    pending: PendingResponse,
    *,
    refusals: Refusals,
) -> PartitionProduceResponse:
    if topic is None:
        return refused(request.index, Refusal(ErrorCode.UNKNOWN_TOPIC_ID))
    if refusals and (topic, request.index) in refusals:
        return refused(request.index, refusals[topic, request.index])
    partition = call.node.partitions.get(topic, request.index)
    if partition is None:
        return refused(
            request.index, Refusal(call.node.error_without_replica(topic, request.index))
        )
    records = request.records
    assert records is None or isinstance(records, memoryview)
    written = partition.leader.append(
        records,
        required_acks=acks,
        produce_version=call.version,
        now_ms=call.node.clock.now_ms(),
    )
    if isinstance(written, asyncio.Task):
        return pending.placeholder_for(partition, written)
    return pending.answer_for(partition, written)


def refused(
    index: int, refusal: Refusal | RecordsRefused, log_start_offset: int = NO_OFFSET
) -> PartitionProduceResponse:
    has_log_start = (
        not isinstance(refusal, Malformed) and refusal.code not in ERRORS_WITHOUT_LOG_START
    )
    indexes = refusal.indexes if isinstance(refusal, RecordsRefused) else ()
    return PartitionProduceResponse(
        index=index,
        error_code=refusal.code,
        base_offset=NO_OFFSET,
        log_start_offset=log_start_offset if has_log_start else NO_OFFSET,
        record_errors=[BatchIndexAndErrorMessage(batch_index=it) for it in indexes],
        error_message=refusal.message,
    )


class PendingResponse:
    """The pending partitions of a request whose response is sent later.

    It does not reference the request, whose records can be large.
    """

    __slots__ = ("acks", "appending", "call", "timeout_ms", "unsettled")

    def __init__(self, acks: int, timeout_ms: int, call: Call) -> None:
        self.acks = acks
        self.timeout_ms = timeout_ms
        self.call = call
        self.appending: list[tuple[Partition, Appending, PartitionProduceResponse]] = []
        """Partitions whose records are validated in a thread, with a placeholder response."""
        self.unsettled: list[tuple[Partition, AppendResult, PartitionProduceResponse]] = []
        """Partitions that wait for a flush or for replicas, with the response after success."""

    def placeholder_for(
        self, partition: Partition, appending: Appending
    ) -> PartitionProduceResponse:
        placeholder = PartitionProduceResponse(
            index=partition.index, error_code=ErrorCode.NONE, base_offset=NO_OFFSET
        )
        self.appending.append((partition, appending, placeholder))
        return placeholder

    def answer_for(
        self, partition: Partition, written: AppendResult | Refusal | RecordsRefused
    ) -> PartitionProduceResponse:
        if not isinstance(written, AppendResult):
            return refused(partition.index, written, partition.log.log_start_offset)
        answer = PartitionProduceResponse(
            index=partition.index,
            error_code=ErrorCode.NONE,
            base_offset=written.first_offset,
            log_append_time_ms=written.log_append_time_ms,
            log_start_offset=written.log_start_offset,
        )
        if partition.high_watermark <= written.last_offset and (
            self.acks == ALL or partition.settled_offset <= written.last_offset
        ):
            self.unsettled.append((partition, written, answer))
        return answer

    async def answer_when_appended(self, response: ProduceResponse) -> ProduceResponse | None:
        """Completes the appends even if the client disconnects."""
        answers = {
            id(placeholder): self.answer_for(partition, await asyncio.shield(appending))
            for partition, appending, placeholder in self.appending
        }
        return await self.answer_when_settled(with_answers(response, answers))

    async def answer_when_settled(self, response: ProduceResponse) -> ProduceResponse | None:
        """Waits for flushes and in-sync replicas; failures and timeouts become errors."""
        waits = [
            until_settled(
                partition,
                written.last_offset + 1,
                self.acks,
                self.timeout_ms,
                self.call.node.clock,
            )
            for partition, written, _ in self.unsettled
        ]
        # One partition, the usual case, needs no task of its own.
        codes = [await waits[0]] if len(waits) == 1 else await asyncio.gather(*waits)
        failed = {
            id(answer): refused(answer.index, Refusal(code))
            for (_, _, answer), code in zip(self.unsettled, codes, strict=True)
            if code is not ErrorCode.NONE
        }
        if failed:
            response = with_answers(response, failed)
        return finished(response, self.acks, self.call)


def with_answers(
    response: ProduceResponse, answers: Mapping[int, PartitionProduceResponse]
) -> ProduceResponse:
    """Returns the response with partition responses replaced, by their `id()`."""
    return response.replace(
        responses=[
            topic.replace(
                partition_responses=[answers.get(id(it), it) for it in topic.partition_responses]
            )
            for topic in response.responses
        ]
    )


async def until_settled(
    partition: Partition, offset: int, acks: int, timeout_ms: int, clock: Clock
) -> ErrorCode:
    """Waits for the flush without a timeout, like Kafka, and for replicas up to `timeout_ms`."""
    if not await partition.flushing.until_settled(offset):
        return ErrorCode.KAFKA_STORAGE_ERROR
    if acks == ALL:
        return await wait_for_commit(partition, offset, timeout_ms / 1000, clock=clock)
    return ErrorCode.NONE


def refuse_all(request: ProduceRequest, code: ErrorCode) -> ProduceResponse | None:
    if request.acks == NONE:
        raise ProtocolViolation(ERROR_WITHOUT_RESPONSE.format(code.name))
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[
                    refused(it.index, Refusal(code)) for it in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
    )


def with_leaders(response: ProduceResponse, call: Call) -> ProduceResponse:
    """Adds the current leaders of partitions that this node does not lead (KIP-951)."""
    lost = [
        (topic, answer)
        for topic in response.responses
        for answer in topic.partition_responses
        if answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    ]
    if not lost:
        return response
    hints = {}
    leaders = set()
    for topic, answer in lost:
        name = topic.name or call.node.partitions.topic_name(topic.topic_id)
        current = call.node.leader_of(name or "", answer.index)
        if current is not None and current[0] != call.node.node_id:
            leaders.add(current[0])
            hints[id(answer)] = LeaderIdAndEpoch(leader_id=current[0], leader_epoch=current[1])
    return response.replace(
        responses=[
            topic.replace(
                partition_responses=[
                    answer.replace(current_leader=hints[id(answer)])
                    if id(answer) in hints
                    else answer
                    for answer in topic.partition_responses
                ]
            )
            for topic in response.responses
        ],
        node_endpoints=[
            NodeEndpoint(node_id=it.node_id, host=it.host, port=it.port, rack=it.rack)
            for it in call.endpoints_of(leaders)
        ],
    )
