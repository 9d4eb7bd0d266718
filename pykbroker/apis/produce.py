"""Produce: each partition's batch is appended or refused on its own.

acks=0 is not answered, acks=1 is answered once the leader has the records, acks=all once every
in-sync replica has them. Where `flush.messages` asks for a flush, it comes before each of these.
What was refused comes back as an error of its partition.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from pykbroker.apis.answers import Deferred, ProtocolViolation
from pykbroker.apis.joining_transactions import (
    NOBODY_REFUSED,
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
UNTOLD = "a Produce with acks=0 cannot be told of {}"
TELLS_NO_LOG_START = (
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
    request: ProduceRequest, call: Call, refusals: Refusals = NOBODY_REFUSED
) -> ProduceResponse | Awaitable[ProduceResponse | None] | None:
    if request.acks not in (ALL, NONE, 1):
        return refuse_all(request, ErrorCode.INVALID_REQUIRED_ACKS)
    unfinished = Unfinished(request.acks, request.timeout_ms, call)
    response = ProduceResponse(
        responses=[
            append_topic(topic, request.acks, call, unfinished, refusals)
            for topic in request.topic_data
        ]
    )
    if unfinished.appending:
        return Deferred(response, unfinished.answer_when_appended, mutes=True)
    if unfinished.unsettled:
        return unfinished.answer_when_settled(response)
    return finished(response, request.acks, call)


def finished(response: ProduceResponse, acks: int, call: Call) -> ProduceResponse | None:
    if acks == NONE:
        end_if_refused(response)
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


def end_if_refused(response: ProduceResponse) -> None:
    """Who wants no answer learns of an error by losing the connection, and looks for leaders."""
    for topic in response.responses:
        for answer in topic.partition_responses:
            if answer.error_code != ErrorCode.NONE:
                name = next(it.name for it in ErrorCode if it == answer.error_code)
                raise ProtocolViolation(UNTOLD.format(name))


def append_topic(
    topic: TopicProduceData,
    acks: int,
    call: Call,
    unfinished: Unfinished,
    refusals: Refusals,
) -> TopicProduceResponse:
    name: str | None = topic.name
    if call.version >= TOPIC_IDS_SINCE_VERSION:
        name = call.node.partitions.topic_name(topic.topic_id)
    return TopicProduceResponse(
        name=topic.name,
        topic_id=topic.topic_id,
        partition_responses=[
            append(name, it, acks, call, unfinished, refusals=refusals)
            for it in topic.partition_data
        ],
    )


def append(
    topic: str | None,
    request: PartitionProduceData,
    acks: int,
    call: Call,
    unfinished: Unfinished,
    *,
    refusals: Refusals,
) -> PartitionProduceResponse:
    if topic is None:
        return refused(request.index, Refusal(ErrorCode.UNKNOWN_TOPIC_ID))
    if refusals and (topic, request.index) in refusals:
        return refused(request.index, refusals[topic, request.index])
    partition = call.node.partitions.get(topic, request.index)
    if partition is None:
        return refused(request.index, Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    records = request.records
    assert records is None or isinstance(records, memoryview)
    written = partition.leader.append(
        records,
        required_acks=acks,
        produce_version=call.version,
        now_ms=call.node.clock.now_ms(),
    )
    if isinstance(written, asyncio.Task):
        return unfinished.place_for(partition, written)
    return unfinished.answer_for(partition, written)


def refused(
    index: int, refusal: Refusal | RecordsRefused, log_start_offset: int = NO_OFFSET
) -> PartitionProduceResponse:
    tells_start = not isinstance(refusal, Malformed) and refusal.code not in TELLS_NO_LOG_START
    indexes = refusal.indexes if isinstance(refusal, RecordsRefused) else ()
    return PartitionProduceResponse(
        index=index,
        error_code=refusal.code,
        base_offset=NO_OFFSET,
        log_start_offset=log_start_offset if tells_start else NO_OFFSET,
        record_errors=[BatchIndexAndErrorMessage(batch_index=it) for it in indexes],
        error_message=refusal.message,
    )


class Unfinished:
    """What is still to be done for the partitions of a request that is to be answered later.

    The request itself is not kept: its records may be large, and most are written.
    """

    __slots__ = ("acks", "appending", "call", "timeout_ms", "unsettled")

    def __init__(self, acks: int, timeout_ms: int, call: Call) -> None:
        self.acks = acks
        self.timeout_ms = timeout_ms
        self.call = call
        self.appending: list[tuple[Partition, Appending, PartitionProduceResponse]] = []
        """Records that are inspected in a thread; the answer is not known yet."""
        self.unsettled: list[tuple[Partition, AppendResult, PartitionProduceResponse]] = []
        """Records that a flush or replicas are still to take, and what is answered then."""

    def place_for(self, partition: Partition, appending: Appending) -> PartitionProduceResponse:
        place = PartitionProduceResponse(
            index=partition.index, error_code=ErrorCode.NONE, base_offset=NO_OFFSET
        )
        self.appending.append((partition, appending, place))
        return place

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
        if partition.high_watermark <= written.last_offset:
            self.unsettled.append((partition, written, answer))
        return answer

    async def answer_when_appended(self, response: ProduceResponse) -> ProduceResponse | None:
        """The records are written even if the client goes away meanwhile."""
        answers = {
            id(place): self.answer_for(partition, await asyncio.shield(appending))
            for partition, appending, place in self.appending
        }
        return await self.answer_when_settled(with_answers(response, answers))

    async def answer_when_settled(self, response: ProduceResponse) -> ProduceResponse | None:
        """Waits for flushes and in-sync replicas; a partition that fails or is late is refused."""
        codes = await asyncio.gather(
            *(
                until_settled(
                    partition,
                    written.last_offset + 1,
                    self.acks,
                    self.timeout_ms,
                    self.call.node.clock,
                )
                for partition, written, _ in self.unsettled
            )
        )
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
    """The response with other answers in place of those with these identities."""
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
    """Waits for the flush without a limit, as Kafka does; `timeout.ms` limits that for replicas."""
    if not await partition.flushing.until_settled(offset):
        return ErrorCode.KAFKA_STORAGE_ERROR
    if acks == ALL:
        return await wait_for_commit(partition, offset, timeout_ms / 1000, clock=clock)
    return ErrorCode.NONE


def refuse_all(request: ProduceRequest, code: ErrorCode) -> ProduceResponse | None:
    if request.acks == NONE:
        raise ProtocolViolation(UNTOLD.format(code.name))
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
    """Tell a client that has come to the wrong node where the leader is (KIP-951)."""
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
        partition = call.node.partitions.get(name or "", answer.index)
        if partition is not None:
            leadership = partition.leadership
            leaders.add(leadership.leader)
            hints[id(answer)] = LeaderIdAndEpoch(
                leader_id=leadership.leader, leader_epoch=leadership.leader_epoch
            )
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
