"""WriteTxnMarkers: appends transaction markers to partitions led by this node."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from pykbroker.coordination.transactions.outcome import Markers, TopicPartition
from pykbroker.partitions.waiting import wait_for_commit
from pykbroker_protocol.errors import ErrorCode, Refusal
from pykbroker_protocol.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)
from pykbroker_protocol.records.batch import NO_PRODUCER_ID

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from pykbroker.apis.node import Call
    from pykbroker.clock import Clock
    from pykbroker.partitions.partition import Partition
    from pykbroker_protocol.message import Message
    from pykbroker_protocol.messages.write_txn_markers import (
        WritableTxnMarker,
        WriteTxnMarkersRequest,
    )

COMMIT_SECONDS_MAX = 30.0
"""The default of request.timeout.ms, the timeout of requests between brokers."""


class MarkerResult(NamedTuple):
    """The result of one marker in one partition."""

    code: ErrorCode
    partition: Partition | None = None
    end_offset: int = 0
    """The offset after the marker; the marker is committed when the high watermark reaches it."""

    @property
    def is_committed(self) -> bool:
        return self.partition is None or self.partition.high_watermark >= self.end_offset


Outcomes = list[dict[TopicPartition, MarkerResult]]
"""The results of each marker by partition."""


def handle(request: WriteTxnMarkersRequest, call: Call) -> Message | Awaitable[Message]:
    outcomes = [
        {
            topic_partition: write_marker(topic_partition, marker, call)
            for topic_partition in partitions_of(marker)
        }
        for marker in request.markers
    ]
    if all(ended.is_committed for outcome in outcomes for ended in outcome.values()):
        return respond(request, outcomes)
    return respond_when_committed(request, outcomes, call.node.clock)


def partitions_of(marker: WritableTxnMarker) -> list[TopicPartition]:
    return [
        TopicPartition(topic.name, it) for topic in marker.topics for it in topic.partition_indexes
    ]


def write_marker(
    topic_partition: TopicPartition, marker: WritableTxnMarker, call: Call
) -> MarkerResult:
    writer = call.node.transactions.markers
    partition = writer.partition(topic_partition)
    if partition is None:
        return MarkerResult(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if marker.producer_id == NO_PRODUCER_ID:
        return MarkerResult(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    written = writer.write(partition, markers_of(marker))
    if isinstance(written, Refusal):
        return MarkerResult(written.code)
    return MarkerResult(ErrorCode.NONE, partition, written.last_offset + 1)


def markers_of(marker: WritableTxnMarker) -> Markers:
    return Markers(
        transactional_id="",  # not part of the request
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        coordinator_epoch=marker.coordinator_epoch,
        committed=marker.transaction_result,
        transaction_version=marker.transaction_version,
        partitions=(),
    )


async def respond_when_committed(
    request: WriteTxnMarkersRequest, outcomes: Outcomes, clock: Clock
) -> Message:
    waiting = [
        (ended, outcome, topic_partition)
        for outcome in outcomes
        for topic_partition, ended in outcome.items()
    ]
    codes = await asyncio.gather(*(wait_until_committed(ended, clock) for ended, _, _ in waiting))
    for (_, outcome, topic_partition), code in zip(waiting, codes, strict=True):
        outcome[topic_partition] = MarkerResult(code)
    return respond(request, outcomes)


async def wait_until_committed(ended: MarkerResult, clock: Clock) -> ErrorCode:
    """Waits for flush and replication of a marker; returns its error code."""
    partition = ended.partition
    if partition is None:
        return ended.code
    if not await partition.flushing.until_settled(ended.end_offset):
        return ErrorCode.KAFKA_STORAGE_ERROR
    return await wait_for_commit(partition, ended.end_offset, COMMIT_SECONDS_MAX, clock=clock)


def respond(request: WriteTxnMarkersRequest, outcomes: Outcomes) -> WriteTxnMarkersResponse:
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=[
                            WritableTxnMarkerPartitionResult(
                                partition_index=it,
                                error_code=outcome[TopicPartition(topic.name, it)].code,
                            )
                            for it in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for marker, outcome in zip(request.markers, outcomes, strict=True)
        ]
    )
