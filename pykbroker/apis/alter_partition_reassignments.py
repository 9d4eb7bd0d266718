"""AlterPartitionReassignments: changes the replicas of partitions or cancels a reassignment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.controller_access import PartitionReassignment
from pykbroker_protocol.errors import ErrorCode, Refusal
from pykbroker_protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)

if TYPE_CHECKING:
    from pykbroker.apis.node import Call
    from pykbroker_protocol.messages.alter_partition_reassignments import (
        AlterPartitionReassignmentsRequest,
    )


async def handle(
    request: AlterPartitionReassignmentsRequest, call: Call
) -> AlterPartitionReassignmentsResponse:
    outcomes = iter(await call.node.controller.reassign_partitions(reassignments(request)))
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_code=ErrorCode.NONE,
        error_message=None,
        responses=[
            ReassignableTopicResponse(
                name=topic.name,
                partitions=[
                    result(partition.partition_index, next(outcomes))
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


def reassignments(request: AlterPartitionReassignmentsRequest) -> list[PartitionReassignment]:
    return [
        PartitionReassignment(
            topic=topic.name,
            index=partition.partition_index,
            replicas=partition.replicas,
            may_change_replication_factor=request.allow_replication_factor_change,
        )
        for topic in request.topics
        for partition in topic.partitions
    ]


def result(index: int, outcome: Refusal | None) -> ReassignablePartitionResponse:
    if outcome is None:
        return ReassignablePartitionResponse(
            partition_index=index, error_code=ErrorCode.NONE, error_message=None
        )
    return ReassignablePartitionResponse(
        partition_index=index,
        error_code=outcome.code,
        error_message=outcome.message or outcome.code.sentence,
    )


def failed(
    request: AlterPartitionReassignmentsRequest, refusal: Refusal, _call: Call
) -> AlterPartitionReassignmentsResponse:
    return AlterPartitionReassignmentsResponse(
        error_code=refusal.code,
        error_message=refusal.message,
        responses=[
            ReassignableTopicResponse(
                name=topic.name,
                partitions=[
                    ReassignablePartitionResponse(
                        partition_index=it.partition_index,
                        error_code=refusal.code,
                        error_message=refusal.message,
                    )
                    for it in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )
