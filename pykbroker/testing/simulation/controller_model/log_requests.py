"""Answers Fetch and FetchSnapshot of `__cluster_metadata`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.metadata.snapshot import SnapshotName
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    SnapshotId,
)
from pykbroker_protocol.messages.fetch_snapshot import (
    FetchSnapshotResponse,
    PartitionSnapshotPart,
    TopicSnapshotPart,
)
from pykbroker_protocol.messages.fetch_snapshot import LeaderIdAndEpoch as SnapshotLeader

if TYPE_CHECKING:
    from pykbroker.testing.simulation.controller_model.model import ControllerModel
    from pykbroker_protocol.messages.fetch import FetchPartition, FetchRequest
    from pykbroker_protocol.messages.fetch_snapshot import FetchSnapshotRequest, PartitionSnapshot

METADATA_TOPIC_ID = (1).to_bytes(16, "big")
METADATA_TOPIC = "__cluster_metadata"
UNKNOWN_OFFSET = -1


async def fetch_metadata(
    model: ControllerModel, controller_id: int, request: FetchRequest
) -> FetchResponse:
    """Returns records, uncommitted ones included; waits if there are none."""
    if request.cluster_id not in (None, model.cluster_id):
        return FetchResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID, responses=())
    topics = [
        it
        for it in request.topics
        if it.topic_id == METADATA_TOPIC_ID or it.topic == METADATA_TOPIC
    ]
    if len(topics) != 1 or len(topics[0].partitions) != 1:
        return FetchResponse(error_code=ErrorCode.INVALID_REQUEST, responses=())
    (asked,) = topics[0].partitions
    deadline = model.clock.monotonic() + request.max_wait_ms / 1000
    while True:
        data = _read(model, controller_id, asked, request.max_bytes)
        left = deadline - model.clock.monotonic()
        if left <= 0 or _is_complete(data, asked):
            break
        await model.until_moved(left)
    topic = FetchableTopicResponse(
        topic=METADATA_TOPIC, topic_id=METADATA_TOPIC_ID, partitions=[data]
    )
    return FetchResponse(
        responses=[topic], node_endpoints=_leader_endpoint(model) if data.error_code else ()
    )


def _is_complete(data: PartitionData, asked: FetchPartition) -> bool:
    """Returns whether the response is sent at once; KIP-1166: also if the high watermark moved."""
    return (
        bool(data.records)
        or data.error_code != ErrorCode.NONE
        or data.snapshot_id.end_offset != UNKNOWN_OFFSET
        or data.diverging_epoch.end_offset != UNKNOWN_OFFSET
        or data.high_watermark > asked.high_watermark
    )


def _read(
    model: ControllerModel, controller_id: int, asked: FetchPartition, bytes_max: int
) -> PartitionData:
    code = refuse_epoch(model, controller_id, asked.current_leader_epoch)
    log = model.log
    data = PartitionData(
        partition_index=0,
        error_code=code,
        high_watermark=UNKNOWN_OFFSET if code else log.high_watermark,
        log_start_offset=log.start_offset,
        current_leader=LeaderIdAndEpoch(leader_id=model.leader_id, leader_epoch=model.epoch),
        aborted_transactions=(),
        records=b"",
    )
    if code:
        return data
    compared = log.compare(asked.fetch_offset, asked.last_fetched_epoch)
    if isinstance(compared, SnapshotName):
        return data.replace(
            snapshot_id=SnapshotId(end_offset=compared.end_offset, epoch=compared.epoch)
        )
    if compared is not None:
        return data.replace(
            diverging_epoch=EpochEndOffset(epoch=compared.epoch, end_offset=compared.end_offset)
        )
    return data.replace(records=log.read(asked.fetch_offset, bytes_max))


def refuse_epoch(model: ControllerModel, controller_id: int, epoch: int) -> ErrorCode:
    if 0 <= epoch < model.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if epoch > model.epoch:
        return ErrorCode.UNKNOWN_LEADER_EPOCH
    is_active = model.leader_id == controller_id
    return ErrorCode.NONE if is_active else ErrorCode.NOT_LEADER_OR_FOLLOWER


def _leader_endpoint(model: ControllerModel) -> list[NodeEndpoint]:
    found = model.endpoints.get(model.leader_id)
    if found is None:
        return []
    return [NodeEndpoint(node_id=model.leader_id, host=found[0], port=found[1])]


def read_snapshot(
    model: ControllerModel, controller_id: int, request: FetchSnapshotRequest
) -> FetchSnapshotResponse:
    """Returns a part of the snapshot, from the requested position on."""
    if request.cluster_id not in (None, model.cluster_id):
        return FetchSnapshotResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID, topics=())
    if len(request.topics) != 1 or len(request.topics[0].partitions) != 1:
        return FetchSnapshotResponse(error_code=ErrorCode.INVALID_REQUEST, topics=())
    (asked,) = request.topics[0].partitions
    code = _refuse_snapshot(model, controller_id, asked)
    data = b"" if code or model.log.snapshot is None else model.log.snapshot.data
    part = PartitionSnapshotPart(
        index=0,
        error_code=code,
        snapshot_id=asked.snapshot_id,
        current_leader=SnapshotLeader(leader_id=model.leader_id, leader_epoch=model.epoch),
        size=len(data),
        position=asked.position,
        unaligned_records=data[asked.position : asked.position + request.max_bytes],
    )
    return FetchSnapshotResponse(
        error_code=ErrorCode.NONE,
        topics=[TopicSnapshotPart(name=METADATA_TOPIC, partitions=[part])],
    )


def _refuse_snapshot(
    model: ControllerModel, controller_id: int, asked: PartitionSnapshot
) -> ErrorCode:
    refusal = refuse_epoch(model, controller_id, asked.current_leader_epoch)
    if refusal:
        return refusal
    snapshot = model.log.snapshot
    name = asked.snapshot_id.end_offset, asked.snapshot_id.epoch
    if snapshot is None or snapshot.name != name:
        return ErrorCode.SNAPSHOT_NOT_FOUND
    if not 0 <= asked.position < len(snapshot.data):
        return ErrorCode.POSITION_OUT_OF_RANGE
    return ErrorCode.NONE
