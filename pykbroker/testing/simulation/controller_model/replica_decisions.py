"""Decides AlterPartition and AssignReplicasToDirs as KRaft does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.controller.decision import Decision
from pykbroker.generators import run_to_end
from pykbroker.metadata.replay import replay
from pykbroker.testing.simulation.controller_model.membership_decisions import check_epoch
from pykbroker.testing.simulation.controller_model.partition_changes import (
    RECOVERED,
    RECOVERING,
    Target,
    can_lead_in,
    is_active,
    partition_change,
    rules_of,
)
from pykbroker_protocol.errors import ErrorCode, Refusal
from pykbroker_protocol.messages.alter_partition import (
    AlterPartitionResponse,
    BrokerState,
    PartitionResult,
    TopicResult,
)
from pykbroker_protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsResponse,
    DirectoryResult,
)
from pykbroker_protocol.messages.assign_replicas_to_dirs import (
    PartitionResult as AssignedPartition,
)
from pykbroker_protocol.messages.assign_replicas_to_dirs import TopicResult as AssignedTopic
from pykbroker_protocol.metadata.topics import PartitionChangeRecord

if TYPE_CHECKING:
    from pykbroker.metadata.image import ClusterImage, PartitionImage, TopicImage
    from pykbroker_protocol.message import Message
    from pykbroker_protocol.messages.alter_partition import (
        AlterPartitionRequest,
        PartitionData,
    )
    from pykbroker_protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest

UNKNOWN_EPOCH = -1


def alter_partitions(
    image: ClusterImage, request: AlterPartitionRequest
) -> Decision[AlterPartitionResponse]:
    """Changes in-sync sets for leaders; each partition has its own outcome."""
    refusal = check_epoch(image, request.broker_id, request.broker_epoch)
    if refusal is not None:
        return Decision((), AlterPartitionResponse(error_code=refusal.code, topics=()))
    records: list[Message] = []
    topics: list[TopicResult] = []
    for requested in request.topics:
        topic = image.topics_by_id.get(requested.topic_id)
        rows: list[PartitionResult] = []
        for data in requested.partitions:
            outcome = (
                ErrorCode.UNKNOWN_TOPIC_ID
                if topic is None
                else _alter(image, topic, data, request.broker_id)
            )
            if isinstance(outcome, ErrorCode):
                rows.append(_refused(data.partition_index, outcome))
            elif topic is not None:
                if outcome is not None:
                    records.append(outcome)
                partition = _after(image, topic, data.partition_index, outcome)
                rows.append(_accepted(partition))
        topics.append(TopicResult(topic_id=requested.topic_id, partitions=rows))
    return Decision(records, AlterPartitionResponse(error_code=ErrorCode.NONE, topics=topics))


def _alter(
    image: ClusterImage, topic: TopicImage, data: PartitionData, broker_id: int
) -> PartitionChangeRecord | ErrorCode | None:
    if not 0 <= data.partition_index < len(topic.partitions):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    partition = topic.partitions[data.partition_index]
    refusal = refuse_in_sync(image, partition, data, broker_id)
    if refusal is not None:
        return refusal
    target = Target(
        in_sync=[it.broker_id for it in states_of(data)],
        can_lead=can_lead_in(image, partition),
        recovery_state=data.leader_recovery_state,
    )
    rules = rules_of(image, topic.name, len(partition.replicas))
    return partition_change(partition, topic.id, target, rules)


def refuse_in_sync(
    image: ClusterImage, partition: PartitionImage, data: PartitionData, broker_id: int
) -> ErrorCode | None:
    """Returns the error of a proposed in-sync set."""
    states = states_of(data)
    checks = (
        (data.leader_epoch > partition.leader_epoch, ErrorCode.NOT_CONTROLLER),
        (data.partition_epoch > partition.partition_epoch, ErrorCode.NOT_CONTROLLER),
        (data.leader_epoch < partition.leader_epoch, ErrorCode.FENCED_LEADER_EPOCH),
        (partition.leader != broker_id, ErrorCode.INVALID_REQUEST),
        (data.partition_epoch < partition.partition_epoch, ErrorCode.INVALID_UPDATE_VERSION),
        (not _is_valid_set(partition, data), ErrorCode.INVALID_REQUEST),
        (not all(is_eligible(image, it) for it in states), ErrorCode.INELIGIBLE_REPLICA),
    )
    return next((code for applies, code in checks if applies), None)


def _is_valid_set(partition: PartitionImage, data: PartitionData) -> bool:
    proposed = [it.broker_id for it in states_of(data)]
    recovering = data.leader_recovery_state == RECOVERING
    starts_recovery = recovering and partition.leader_recovery_state == RECOVERED
    return (
        len(set(proposed)) == len(proposed)
        and set(proposed) <= set(partition.replicas)
        and partition.leader in proposed
        and not starts_recovery
        and not (recovering and len(proposed) > 1)
    )


def is_eligible(image: ClusterImage, replica: BrokerState) -> bool:
    """Returns whether a replica is active and of the incarnation that the leader means."""
    if not is_active(image, replica.broker_id):
        return False
    epoch = image.brokers[replica.broker_id].epoch
    return replica.broker_epoch in (UNKNOWN_EPOCH, epoch)


def states_of(data: PartitionData) -> list[BrokerState]:
    with_epochs = list(data.new_isr_with_epochs)
    return with_epochs or [BrokerState(broker_id=it) for it in data.new_isr]


def _after(
    image: ClusterImage, topic: TopicImage, index: int, record: PartitionChangeRecord | None
) -> PartitionImage:
    if record is None:
        return topic.partitions[index]
    delta = run_to_end(replay(image, [record], last_offset=image.offset + 1))
    return delta.topics[topic.name].partitions[index]


def _accepted(partition: PartitionImage) -> PartitionResult:
    return PartitionResult(
        partition_index=partition.index,
        error_code=ErrorCode.NONE,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        isr=partition.in_sync,
        leader_recovery_state=partition.leader_recovery_state,
        partition_epoch=partition.partition_epoch,
    )


def _refused(index: int, code: ErrorCode) -> PartitionResult:
    return PartitionResult(
        partition_index=index,
        error_code=code,
        leader_id=0,
        leader_epoch=0,
        isr=(),
        partition_epoch=0,
    )


# --- directories


def assign_directories(
    image: ClusterImage, request: AssignReplicasToDirsRequest
) -> Decision[AssignReplicasToDirsResponse | Refusal]:
    """Records in which directory of a broker its replicas are."""
    refusal = check_epoch(image, request.broker_id, request.broker_epoch)
    if refusal is not None:
        return Decision((), refusal)
    records: list[Message] = []
    directories: list[DirectoryResult] = []
    for directory in request.directories:
        topics: list[AssignedTopic] = []
        for requested in directory.topics:
            rows: list[AssignedPartition] = []
            for data in requested.partitions:
                index = data.partition_index
                outcome = _assign(image, requested.topic_id, index, request.broker_id, directory.id)
                if isinstance(outcome, PartitionChangeRecord):
                    records.append(outcome)
                code = outcome if isinstance(outcome, ErrorCode) else ErrorCode.NONE
                rows.append(AssignedPartition(partition_index=index, error_code=code))
            topics.append(AssignedTopic(topic_id=requested.topic_id, partitions=rows))
        directories.append(DirectoryResult(id=directory.id, topics=topics))
    response = AssignReplicasToDirsResponse(error_code=ErrorCode.NONE, directories=directories)
    return Decision(records, response)


def _assign(
    image: ClusterImage, topic_id: bytes, index: int, broker_id: int, directory: bytes
) -> PartitionChangeRecord | ErrorCode | None:
    topic = image.topics_by_id.get(topic_id)
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    if not 0 <= index < len(topic.partitions):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    partition = topic.partitions[index]
    if broker_id not in partition.replicas:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    pairs = zip(partition.replicas, partition.directories, strict=True)
    changed = tuple(directory if replica == broker_id else known for replica, known in pairs)
    if changed == partition.directories:
        return None
    return PartitionChangeRecord(partition_id=index, topic_id=topic_id, directories=changed)
