"""CreatePartitions: adds partitions to topics; records stay in their partitions."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from pykbroker.apis.slices import each
from pykbroker.controller_access import NewPartitions
from pykbroker_protocol.errors import ErrorCode, Refusal
from pykbroker_protocol.messages.create_partitions import (
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)

if TYPE_CHECKING:
    from pykbroker.apis.node import Call
    from pykbroker_protocol.messages.create_partitions import (
        CreatePartitionsRequest,
        CreatePartitionsTopic,
    )


async def handle(request: CreatePartitionsRequest, call: Call) -> CreatePartitionsResponse:
    counts = Counter([topic.name for topic in request.topics])
    once = [topic for topic in request.topics if counts[topic.name] == 1]
    outcomes = await call.node.controller.create_partitions(
        await each(new_partitions, once), validate_only=request.validate_only
    )
    twice = Refusal(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    return CreatePartitionsResponse(
        results=await each(
            lambda it: result(*it),
            [
                *[(name, twice) for name, count in counts.items() if count > 1],
                *[(it.name, outcome) for it, outcome in zip(once, outcomes, strict=True)],
            ],
        )
    )


def new_partitions(topic: CreatePartitionsTopic) -> NewPartitions:
    assignments = topic.assignments
    return NewPartitions(
        name=topic.name,
        count=topic.count,
        assignments=None if assignments is None else [it.broker_ids for it in assignments],
    )


def result(name: str, outcome: Refusal | None) -> CreatePartitionsTopicResult:
    if outcome is None:
        return CreatePartitionsTopicResult(name=name, error_code=ErrorCode.NONE)
    return CreatePartitionsTopicResult(
        name=name, error_code=outcome.code, error_message=outcome.message
    )


def failed(
    request: CreatePartitionsRequest, refusal: Refusal, _call: Call
) -> CreatePartitionsResponse:
    return CreatePartitionsResponse(results=[result(it.name, refusal) for it in request.topics])
