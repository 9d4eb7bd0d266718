"""TxnOffsetCommit: commits offsets of a group within a transaction.

The offsets partition of the group is part of the transaction. Older clients have added it with
AddOffsetsToTxn; since version 5 this request adds it.
"""

from __future__ import annotations

from asyncio import Future
from functools import partial
from typing import TYPE_CHECKING

from pykbroker.apis.answers import Deferred
from pykbroker.coordination.groups.offsets import answered_in_transaction, refused_in_transaction
from pykbroker.coordination.transactions.outcome import TopicPartition
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.message import Message
from pykbroker_protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from pykbroker.apis.node import Call
    from pykbroker.coordinators.transaction_log import Verdicts
    from pykbroker.partitions.partition import Partition

ABORTABLE_SINCE = 4
"""The first version whose clients handle TRANSACTION_ABORTABLE (KIP-890)."""
ADDED_HERE_SINCE = 5


def handle(request: TxnOffsetCommitRequest, call: Call) -> Message | Awaitable[Message]:
    """Unknown partitions get an error here; the group coordinator handles the others."""
    if all(is_known(topic, call) for topic in request.topics) and request.topics:
        return commit(request, call)
    return commit_known_part(request, call)


def is_known(topic: TxnOffsetCommitRequestTopic, call: Call) -> bool:
    count = partition_count(topic, call)
    return all(0 <= it.partition_index < count for it in topic.partitions)


def partition_count(topic: TxnOffsetCommitRequestTopic, call: Call) -> int:
    found = call.node.image.topics.get(topic.name)
    return 0 if found is None else len(found.partitions)


async def commit_known_part(request: TxnOffsetCommitRequest, call: Call) -> TxnOffsetCommitResponse:
    codes: dict[tuple[str, int], int] = {}
    known = [it for topic in request.topics if (it := known_part(topic, call)).partitions]
    if known:
        answer = commit(request.replace(topics=known), call)
        committed = answer if isinstance(answer, Message) else await answer
        assert isinstance(committed, TxnOffsetCommitResponse)
        codes = {
            (topic.name, it.partition_index): it.error_code
            for topic in committed.topics
            for it in topic.partitions
        }
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return answered_in_transaction(
        request, lambda *topic_partition: codes.get(topic_partition, unknown)
    )


def known_part(topic: TxnOffsetCommitRequestTopic, call: Call) -> TxnOffsetCommitRequestTopic:
    count = partition_count(topic, call)
    return topic.replace(
        partitions=[it for it in topic.partitions if 0 <= it.partition_index < count]
    )


def commit(request: TxnOffsetCommitRequest, call: Call) -> Message | Awaitable[Message]:
    if not request.group_id:
        return refused_in_transaction(request, ErrorCode.INVALID_GROUP_ID)
    log = call.node.groups.find(request.group_id)
    if isinstance(log, ErrorCode):
        return refused_in_transaction(request, log)
    code = refusal_of_transaction(request, log.partition, call)
    if isinstance(code, ErrorCode):
        return decide(request, code, call)
    return Deferred(code, partial(commit_later, request, call))


async def commit_later(
    request: TxnOffsetCommitRequest, call: Call, code: Awaitable[ErrorCode]
) -> Message:
    answer = decide(request, await code, call)
    return await answer if isinstance(answer, Future) else answer


def decide(
    request: TxnOffsetCommitRequest, code: ErrorCode, call: Call
) -> Message | Future[Message]:
    if code is not ErrorCode.NONE:
        return refused_in_transaction(request, code)
    node = call.node
    return node.groups.decide(
        request.group_id,
        lambda groups, ticket: groups.txn_offset_commit(
            request, version=call.version, ticket=ticket, now_ms=node.clock.now_ms()
        ),
        lambda code: refused_in_transaction(request, code),
    )


def refusal_of_transaction(
    request: TxnOffsetCommitRequest, partition: Partition, call: Call
) -> ErrorCode | Awaitable[ErrorCode]:
    """Returns an error if the partition is not part of the transaction.

    The coordinator is not involved if the transaction is open in the log of the partition.
    """
    if partition.log.producers.is_in_transaction(request.producer_id, request.producer_epoch):
        return ErrorCode.NONE
    topic_partition = TopicPartition(partition.topic, partition.index)
    joined = join(request, topic_partition, call, verify_only=call.version < ADDED_HERE_SINCE)
    if isinstance(joined, Future):
        if call.node.transactions.is_elsewhere(request.transactional_id):
            return refusal_from_elsewhere(joined, request, partition, call)
        return refusal_after(joined, request, topic_partition, call)
    return error_for_version(joined[topic_partition], call.version)


def refusal_from_elsewhere(
    joined: Future[Verdicts], request: TxnOffsetCommitRequest, partition: Partition, call: Call
) -> Awaitable[ErrorCode]:
    """Waits for a coordinator on another broker.

    If a marker ends the transaction in the log of this partition meanwhile, its answer is obsolete.
    """
    pending = partition.leader.joining.ask(
        request.producer_id,
        request.producer_epoch,
        0,
        begins_at_zero=True,
        now_ms=call.node.clock.now_ms(),
    )

    async def refusal() -> ErrorCode:
        joining = partition.leader.joining
        try:
            code = (await joined)[TopicPartition(partition.topic, partition.index)]
            is_obsolete = not partition.leader.joining.holds(request.producer_id, pending)
        finally:
            joining.answered(request.producer_id, pending, has_joined=False)
        if code is ErrorCode.NONE and is_obsolete:
            return ErrorCode.INVALID_TXN_STATE
        return error_for_version(retriable(code), call.version)

    return refusal()


def retriable(code: ErrorCode) -> ErrorCode:
    """Maps errors of the request between brokers to one on which clients retry."""
    match code:
        case (
            ErrorCode.NETWORK_EXCEPTION
            | ErrorCode.NOT_COORDINATOR
            | ErrorCode.COORDINATOR_NOT_AVAILABLE
        ):
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        case _:
            return code


async def refusal_after(
    joined: Verdicts | Future[Verdicts],
    request: TxnOffsetCommitRequest,
    topic_partition: TopicPartition,
    call: Call,
) -> ErrorCode:
    """Waits for the coordinator, then verifies again, because the transaction can have ended.

    Offsets appended after the end of their transaction would stay pending.
    """
    while isinstance(joined, Future):
        code = (await joined)[topic_partition]
        if code is not ErrorCode.NONE:
            return error_for_version(code, call.version)
        joined = join(request, topic_partition, call, verify_only=True)
    return error_for_version(joined[topic_partition], call.version)


def join(
    request: TxnOffsetCommitRequest,
    topic_partition: TopicPartition,
    call: Call,
    *,
    verify_only: bool,
) -> Verdicts | Future[Verdicts]:
    return call.node.transactions.join(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        [topic_partition],
        verify_only=verify_only,
    )


def error_for_version(code: ErrorCode, version: int) -> ErrorCode:
    if code is ErrorCode.TRANSACTION_ABORTABLE and version < ABORTABLE_SINCE:
        return ErrorCode.INVALID_TXN_STATE
    return code
