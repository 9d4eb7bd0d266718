"""Administrative requests that the harness sends to the controller itself, not through a broker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from compat.wire import Wire
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from pykbroker_protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from pykbroker_protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from pykbroker_protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from pykbroker_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

if TYPE_CHECKING:
    from pykbroker_protocol.message import Message

CREATE_TOPICS_VERSION = 7
METADATA_VERSION = 9
REASSIGN_VERSION = 0
ELECT_VERSION = 2
QUOTAS_VERSION = 1
PREFERRED = 0

Assignment = Mapping[int, Sequence[int]]
"""Replicas of each partition; the first one is the preferred leader."""


def create_topic(
    controller_port: int,
    name: str,
    assignment: Assignment,
    configs: Mapping[str, object],
) -> None:
    topic = CreatableTopic(
        name=name,
        num_partitions=-1,
        replication_factor=-1,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=replicas)
            for index, replicas in assignment.items()
        ],
        configs=[
            CreatableTopicConfig(name=key, value=str(value)) for key, value in configs.items()
        ],
    )
    response = _ask(controller_port, CreateTopicsRequest(topics=[topic]), CREATE_TOPICS_VERSION)
    assert response.topics[0].error_code == ErrorCode.NONE, response


def has_topic(broker_port: int, name: str) -> bool:
    """Returns whether a broker has applied the metadata of a topic."""
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False
    )
    (row,) = _ask(broker_port, request, METADATA_VERSION).topics
    return bool(row.error_code == ErrorCode.NONE)


def reassign(controller_port: int, topic: str, assignment: Assignment) -> None:
    """Sets the replicas of partitions. With the same replicas, only their order changes."""
    partitions = [
        ReassignablePartition(partition_index=index, replicas=replicas)
        for index, replicas in assignment.items()
    ]
    request = AlterPartitionReassignmentsRequest(
        topics=[ReassignableTopic(name=topic, partitions=partitions)]
    )
    response = _ask(controller_port, request, REASSIGN_VERSION)
    assert response.error_code == ErrorCode.NONE, response
    rows = response.responses[0].partitions
    assert all(row.error_code == ErrorCode.NONE for row in rows), response


def elect_preferred_leaders(controller_port: int, topic: str, partitions: Sequence[int]) -> None:
    """Requests the election. Partitions whose preferred replica is not eligible keep the leader."""
    request = ElectLeadersRequest(
        election_type=PREFERRED,
        topic_partitions=[TopicPartitions(topic=topic, partitions=partitions)],
    )
    response = _ask(controller_port, request, ELECT_VERSION)
    assert response.error_code == ErrorCode.NONE, response


def alter_default_quota(controller_port: int, key: str, value: float | None) -> None:
    """Sets or removes a quota of all client ids."""
    request = AlterClientQuotasRequest(
        entries=[
            EntryData(
                entity=[EntityData(entity_type="client-id", entity_name=None)],
                ops=[OpData(key=key, value=value or 0.0, remove=value is None)],
            )
        ],
        validate_only=False,
    )
    response = _ask(controller_port, request, QUOTAS_VERSION)
    assert response.entries[0].error_code == ErrorCode.NONE, response


def _ask(port: int, request: Message, version: int) -> Any:
    with Wire(port, client_id="harness") as wire:
        return wire.ask(request, version)
