"""AddPartitionsToTxn: adds partitions to transactions, or verifies that they were added.

Clients send one transaction, brokers (since version 4) several.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pykbroker.apis.parts import Joined, elements_in, parts_of
from pykbroker.apis.slices import SLICE_ELEMENTS, Slice, all_of, sliced
from pykbroker.coordination.transactions.add_partitions import (
    refused_for_partitions,
    response_of,
    transactions_of,
)
from pykbroker.coordination.transactions.outcome import TopicPartition
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping, Sequence

    from pykbroker.apis.node import Call
    from pykbroker.apis.slices import Slices
    from pykbroker_protocol.message import Message
    from pykbroker_protocol.messages.add_partitions_to_txn import (
        AddPartitionsToTxnRequest,
        AddPartitionsToTxnTransaction,
    )

    Answer = Message | asyncio.Future[Message]


@sliced
def handle(request: AddPartitionsToTxnRequest, call: Call) -> Slices[Message | Awaitable[Message]]:
    count = Slice()
    answers = yield from all_of(
        add(it, call, count) for it in transactions_of(request, call.version)
    )
    waiting = any(isinstance(it, asyncio.Future) for it in answers)
    if waiting:
        return respond_later(answers, call.version)
    return respond(answers, call.version)


def add(transaction: AddPartitionsToTxnTransaction, call: Call, count: Slice) -> Slices[Answer]:
    """Adds all partitions of a transaction or none.

    Responses name a repeated partition as often as the request does, as with Apache Kafka. Only a
    large request is reduced to the partitions that exist: the coordinator handles it in one piece.
    """
    named: dict[str, dict[int, None]] = {}
    missing: dict[TopicPartition, ErrorCode] = {}
    elements = 0
    for topic in transaction.topics:
        elements += 1 + len(topic.partitions)
        known = call.node.image.partition_count(topic.name)
        indexes = named.setdefault(topic.name, {})
        for index in topic.partitions:
            indexes[index] = None
            if not 0 <= index < known:
                missing[TopicPartition(topic.name, index)] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if count.is_full():
                yield
    if missing:
        return (yield from refuse(transaction, missing, count))
    if elements > SLICE_ELEMENTS:
        transaction = transaction.replace(
            topics=[
                AddPartitionsToTxnTopic(name=name, partitions=list(indexes))
                for name, indexes in named.items()
            ]
        )
    return call.node.transactions.add_partitions(transaction, version=call.version)


def refuse(
    transaction: AddPartitionsToTxnTransaction,
    missing: Mapping[TopicPartition, ErrorCode],
    count: Slice,
) -> Slices[Message]:
    joined = Joined()
    for part in parts_of(transaction, "topics", SLICE_ELEMENTS // 2):
        joined.add(refused_for_partitions(part, missing))
        if count.is_full(elements_in(part)):
            yield
    refused: Message = joined.response()
    return refused


async def respond_later(answers: Sequence[Answer], version: int) -> Message:
    results = [await it if isinstance(it, asyncio.Future) else it for it in answers]
    return respond(results, version)


def respond(answers: Sequence[Answer], version: int) -> Message:
    results = [it for it in answers if isinstance(it, AddPartitionsToTxnResult)]
    assert len(results) == len(answers)
    return response_of(results, version)
