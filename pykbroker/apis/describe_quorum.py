"""DescribeQuorum: returns the voters of the metadata log and their log end offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.metadata.topic_names import CLUSTER_METADATA_TOPIC
from pykbroker_protocol.errors import ErrorCode, Refusal
from pykbroker_protocol.messages.describe_quorum import (
    DescribeQuorumPartitionData,
    DescribeQuorumResponse,
    DescribeQuorumTopicData,
    Node,
    ReplicaState,
)

if TYPE_CHECKING:
    from pykbroker.apis.node import Call
    from pykbroker.controller_access import QuorumStatus
    from pykbroker_protocol.messages.describe_quorum import DescribeQuorumRequest

METADATA_PARTITION = 0
LISTENERS_SINCE_VERSION = 2
"""The version with the listeners of voters. Directory ids are omitted: the quorum is static."""


async def handle(request: DescribeQuorumRequest, call: Call) -> DescribeQuorumResponse:
    if not requests_metadata_log(request):
        return unknown_partitions(request)
    quorum = await call.node.controller.describe_quorum()
    if isinstance(quorum, Refusal):
        return DescribeQuorumResponse(
            error_code=quorum.code, error_message=quorum.message, topics=()
        )
    return DescribeQuorumResponse(
        error_code=ErrorCode.NONE,
        topics=[
            DescribeQuorumTopicData(
                topic_name=CLUSTER_METADATA_TOPIC,
                partitions=[metadata_log(quorum, call.node.clock.now_ms())],
            )
        ],
        # The only voter has no controller listener.
        nodes=[Node(node_id=quorum.leader_id, listeners=())]
        if call.version >= LISTENERS_SINCE_VERSION
        else (),
    )


def requests_metadata_log(request: DescribeQuorumRequest) -> bool:
    named = [
        (topic.topic_name, partition.partition_index)
        for topic in request.topics
        for partition in topic.partitions
    ]
    return len(request.topics) == 1 and named == [(CLUSTER_METADATA_TOPIC, METADATA_PARTITION)]


def metadata_log(quorum: QuorumStatus, now_ms: int) -> DescribeQuorumPartitionData:
    """Returns the quorum, whose only voter is the leader."""
    leader = ReplicaState(
        replica_id=quorum.leader_id,
        log_end_offset=quorum.log_end_offset,
        last_fetch_timestamp=now_ms,
        last_caught_up_timestamp=now_ms,
    )
    return DescribeQuorumPartitionData(
        partition_index=METADATA_PARTITION,
        error_code=ErrorCode.NONE,
        leader_id=quorum.leader_id,
        leader_epoch=quorum.leader_epoch,
        high_watermark=quorum.high_watermark,
        current_voters=[leader],
        observers=(),
    )


def unknown_partitions(request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return DescribeQuorumResponse(
        error_code=ErrorCode.NONE,
        topics=[
            DescribeQuorumTopicData(
                topic_name=topic.topic_name,
                partitions=[
                    DescribeQuorumPartitionData(
                        partition_index=it.partition_index,
                        error_code=code,
                        error_message=code.sentence,
                        leader_id=0,
                        leader_epoch=0,
                        high_watermark=0,
                        current_voters=(),
                        observers=(),
                    )
                    for it in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


def failed(
    _request: DescribeQuorumRequest, refusal: Refusal, _call: Call
) -> DescribeQuorumResponse:
    return DescribeQuorumResponse(
        error_code=refusal.code, error_message=refusal.code.sentence, topics=()
    )
