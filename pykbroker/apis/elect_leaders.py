"""ElectLeaders: elects preferred leaders, or any replica for partitions without leader."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from pykbroker.apis.slices import SLICE_ELEMENTS, next_turn
from pykbroker.controller_access import ElectionType, TopicPartition
from pykbroker_protocol.errors import ErrorCode, Refusal
from pykbroker_protocol.messages.elect_leaders import (
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pykbroker.apis.node import Call
    from pykbroker.metadata.image import ClusterImage
    from pykbroker_protocol.messages.elect_leaders import ElectLeadersRequest


async def handle(request: ElectLeadersRequest, call: Call) -> ElectLeadersResponse:
    if request.election_type not in set(ElectionType):
        text = f"Unknown election type {request.election_type}."
        return failed(request, Refusal(ErrorCode.INVALID_REQUEST, text), call)
    image = call.node.image
    election = ElectionType(request.election_type)
    if request.topic_partitions is None:
        candidates = every_partition(image)
        outcomes: list[Refusal | None] = []
        for first in range(0, len(candidates), SLICE_ELEMENTS):
            some = candidates[first : first + SLICE_ELEMENTS]
            outcomes += await call.node.controller.elect_leaders(some, election)
            await next_turn()
        return ElectLeadersResponse(replica_election_results=results_by_topic(candidates, outcomes))
    candidates = named(request)
    outcomes = await call.node.controller.elect_leaders(candidates, election)
    left = iter(outcomes)
    return ElectLeadersResponse(
        replica_election_results=[
            ReplicaElectionResult(
                topic=topic.topic,
                partition_result=[result(index, next(left)) for index in topic.partitions],
            )
            for topic in request.topic_partitions
        ]
    )


def every_partition(image: ClusterImage) -> list[TopicPartition]:
    return [
        TopicPartition(topic.name, partition.index)
        for topic in image.topics.values()
        for partition in topic.partitions
    ]


def named(request: ElectLeadersRequest) -> list[TopicPartition]:
    return [
        TopicPartition(topic.topic, index)
        for topic in request.topic_partitions or ()
        for index in topic.partitions
    ]


def results_by_topic(
    candidates: Sequence[TopicPartition], outcomes: Sequence[Refusal | None]
) -> list[ReplicaElectionResult]:
    """Returns all topics with the partitions that needed an election."""
    pairs = zip(candidates, outcomes, strict=True)
    return [
        ReplicaElectionResult(topic=topic, partition_result=needed_elections(group))
        for topic, group in groupby(pairs, key=lambda it: it[0].topic)
    ]


def needed_elections(
    pairs: Iterable[tuple[TopicPartition, Refusal | None]],
) -> list[PartitionResult]:
    return [
        result(topic_partition.partition, outcome)
        for topic_partition, outcome in pairs
        if outcome is None or outcome.code != ErrorCode.ELECTION_NOT_NEEDED
    ]


def result(index: int, outcome: Refusal | None) -> PartitionResult:
    if outcome is None:
        return PartitionResult(partition_id=index, error_code=ErrorCode.NONE, error_message=None)
    return PartitionResult(
        partition_id=index,
        error_code=outcome.code,
        error_message=outcome.message or outcome.code.sentence,
    )


def failed(request: ElectLeadersRequest, refusal: Refusal, _call: Call) -> ElectLeadersResponse:
    return ElectLeadersResponse(
        error_code=refusal.code,
        replica_election_results=[
            ReplicaElectionResult(
                topic=topic.topic,
                partition_result=[
                    PartitionResult(
                        partition_id=index,
                        error_code=refusal.code,
                        error_message=refusal.message,
                    )
                    for index in topic.partitions
                ],
            )
            for topic in request.topic_partitions or ()
        ],
    )
