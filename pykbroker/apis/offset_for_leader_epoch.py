"""OffsetForLeaderEpoch: returns the end offset of an epoch, to detect log truncation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)

if TYPE_CHECKING:
    from pykbroker.apis.node import Call
    from pykbroker_protocol.messages.offset_for_leader_epoch import (
        OffsetForLeaderEpochRequest,
        OffsetForLeaderPartition,
    )


def handle(request: OffsetForLeaderEpochRequest, call: Call) -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[answer(topic.topic, it, call) for it in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def answer(topic: str, requested: OffsetForLeaderPartition, call: Call) -> EpochEndOffset:
    partition = call.node.partitions.get(topic, requested.partition)
    if partition is None:
        code = call.node.error_without_replica(topic, requested.partition)
        return EpochEndOffset(error_code=code, partition=requested.partition)
    refusal = partition.epoch_refusal(requested.current_leader_epoch)
    if refusal is not None:
        return EpochEndOffset(error_code=refusal.code, partition=requested.partition)
    epoch, end_offset = partition.end_of_epoch(requested.leader_epoch)
    return EpochEndOffset(
        error_code=ErrorCode.NONE,
        partition=requested.partition,
        leader_epoch=epoch,
        end_offset=end_offset,
    )
