"""AddPartitionsToTxn: partitions join transactions, or their leaders ask whether they have.

Clients ask for one transaction, brokers (since version 4) for many at a time.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pykbroker.coordination.transactions.joining import (
    places_of,
    refused_for_some,
    response_of,
    transactions_of,
)
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.add_partitions_to_txn import AddPartitionsToTxnResult

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

    from pykbroker.apis.node import Call, Node
    from pykbroker.coordination.transactions.outcome import Place
    from pykbroker_protocol.message import Message
    from pykbroker_protocol.messages.add_partitions_to_txn import (
        AddPartitionsToTxnRequest,
        AddPartitionsToTxnTransaction,
    )

    Answer = Message | asyncio.Future[Message]


def handle(request: AddPartitionsToTxnRequest, call: Call) -> Message | Awaitable[Message]:
    answers = [add(it, call) for it in transactions_of(request, call.version)]
    waiting = any(isinstance(it, asyncio.Future) for it in answers)
    if waiting:
        return respond_later(answers, call.version)
    return respond(answers, call.version)


def add(asked: AddPartitionsToTxnTransaction, call: Call) -> Answer:
    missing = {
        place: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        for place in places_of(asked)
        if not exists(place, call.node)
    }
    if missing:
        return refused_for_some(asked, missing)
    return call.node.transactions.add_partitions(asked, version=call.version)


def exists(place: Place, node: Node) -> bool:
    return 0 <= place.partition < node.image.partition_count(place.topic)


async def respond_later(answers: Sequence[Answer], version: int) -> Message:
    told = [await it if isinstance(it, asyncio.Future) else it for it in answers]
    return respond(told, version)


def respond(answers: Sequence[Answer], version: int) -> Message:
    results = [it for it in answers if isinstance(it, AddPartitionsToTxnResult)]
    assert len(results) == len(answers)
    return response_of(results, version)
