"""AlterReplicaLogDirs: accepts only the log directory of this broker, which has one."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from pykbroker.apis.describe_log_dirs import is_cordoned
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)

if TYPE_CHECKING:
    from pykbroker.apis.node import Call
    from pykbroker_protocol.messages.alter_replica_log_dirs import AlterReplicaLogDirsRequest

NAME_WHILE_MOVING = f".{'0' * 32}-future"
"""The suffix of the directory of a replica that is being moved in Kafka (KAFKA-4893)."""
DIRECTORY_NAME_MAX = 255


def handle(request: AlterReplicaLogDirsRequest, call: Call) -> AlterReplicaLogDirsResponse:
    here = Path(call.node.partitions.directory.path).resolve()
    outcomes = {
        (topic.name, index): outcome(topic.name, index, call, is_here=is_here)
        for directory in request.dirs
        for is_here in (Path(directory.path) == here,)
        for topic in directory.topics
        for index in topic.partitions
    }
    return AlterReplicaLogDirsResponse(
        results=[
            AlterReplicaLogDirTopicResult(
                topic_name=name,
                partitions=[
                    AlterReplicaLogDirPartitionResult(
                        partition_index=index, error_code=outcomes[name, index]
                    )
                    for _, index in group
                ],
            )
            for name, group in groupby(sorted(outcomes), key=lambda it: it[0])
        ]
    )


def outcome(topic: str, index: int, call: Call, *, is_here: bool) -> ErrorCode:
    """Returns NONE for the present directory of a replica, otherwise an error."""
    if len(f"{topic}-{index}{NAME_WHILE_MOVING}") > DIRECTORY_NAME_MAX:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    if not is_here:
        return ErrorCode.LOG_DIR_NOT_FOUND
    if is_cordoned(call):
        return ErrorCode.INVALID_REPLICA_ASSIGNMENT
    if call.node.partitions.get(topic, index) is not None:
        return ErrorCode.NONE
    if 0 <= index < call.node.image.partition_count(topic):
        return ErrorCode.REPLICA_NOT_AVAILABLE
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
