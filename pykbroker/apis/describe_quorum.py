"""DescribeQuorum: who keeps the metadata log, and how far each of them has got."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.metadata.topic_names import CLUSTER_METADATA_TOPIC
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.describe_quorum import (
    DescribeQuorumPartitionData,
    DescribeQuorumResponse,
    DescribeQuorumTopicData,
    Node,
    ReplicaState,
)

if TYPE_CHECKING:
    from pykbroker.apis.node import Call
    from pykbroker_protocol.messages.describe_quorum import DescribeQuorumRequest

METADATA_PARTITION = 0
LISTENERS_SINCE_VERSION = 2
"""Where voters listen; their directories are told only where the set of voters may change."""


def handle(request: DescribeQuorumRequest, call: Call) -> DescribeQuorumResponse:
    if not asks_for_the_metadata_log(request):
        return nothing_known_of(request)
    node_id = call.node.node_id
    return DescribeQuorumResponse(
        error_code=ErrorCode.NONE,
        topics=[
            DescribeQuorumTopicData(
                topic_name=CLUSTER_METADATA_TOPIC, partitions=[metadata_log(call)]
            )
        ],
        # Controllers listen nowhere here: a quorum of one has nobody to talk to.
        nodes=[Node(node_id=node_id, listeners=())]
        if call.version >= LISTENERS_SINCE_VERSION
        else (),
    )


def asks_for_the_metadata_log(request: DescribeQuorumRequest) -> bool:
    named = [
        (topic.topic_name, partition.partition_index)
        for topic in request.topics
        for partition in topic.partitions
    ]
    return len(request.topics) == 1 and named == [(CLUSTER_METADATA_TOPIC, METADATA_PARTITION)]


def metadata_log(call: Call) -> DescribeQuorumPartitionData:
    """What is appended but not yet known to be on disk lies behind the high watermark."""
    controller, now_ms = call.node.controller, call.node.clock.now_ms()
    leader = ReplicaState(
        replica_id=call.node.node_id,
        log_end_offset=controller.log.end_offset,
        last_fetch_timestamp=now_ms,
        last_caught_up_timestamp=now_ms,
    )
    return DescribeQuorumPartitionData(
        partition_index=METADATA_PARTITION,
        error_code=ErrorCode.NONE,
        leader_id=call.node.node_id,
        leader_epoch=controller.log.epoch,
        high_watermark=controller.image.offset + 1,
        current_voters=[leader],
        observers=(),
    )


def nothing_known_of(request: DescribeQuorumRequest) -> DescribeQuorumResponse:
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
