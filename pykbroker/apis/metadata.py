"""Metadata: who the brokers are, and where the partitions of topics are led.

Asking for a topic that is not there may create it; until it can be used the answer says
UNKNOWN_TOPIC_OR_PARTITION, and clients ask again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.apis.operations import ALL_ON_A_CLUSTER, ALL_ON_A_TOPIC, NOT_ASKED
from pykbroker.controller.topic_names import refuse_name
from pykbroker.controller.topics import NewTopic
from pykbroker.internal_topics import is_internal
from pykbroker_protocol.errors import ErrorCode, Refusal
from pykbroker_protocol.message import ZERO_UUID
from pykbroker_protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

    from pykbroker.apis.node import Call
    from pykbroker.controller.image import PartitionImage, TopicImage
    from pykbroker_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

EMPTY_MEANS_ALL_BELOW_VERSION = 1
NAMES_ONLY = (10, 11)
NO_LEADER = -1


def handle(request: MetadataRequest, call: Call) -> MetadataResponse | Awaitable[MetadataResponse]:
    if call.version in NAMES_ONLY and any(
        it.name is None or it.topic_id != ZERO_UUID for it in request.topics or ()
    ):
        return ids_too_early(request)
    missing = missing_topics(request, call)
    may_create = request.allow_auto_topic_creation and call.node.settings.auto_create_topics_enable
    if missing and may_create:
        return create_and_answer(request, call, missing)
    return answer(request, call, {})


def ids_too_early(request: MetadataRequest) -> MetadataResponse:
    """Versions 10 and 11 have a field for the id, but may not be asked by it (KAFKA-12713)."""
    return MetadataResponse(
        brokers=(),
        topics=[
            missing_row(it.name or "", it.topic_id, ErrorCode.INVALID_REQUEST)
            for it in request.topics or ()
        ],
    )


def missing_topics(request: MetadataRequest, call: Call) -> list[str]:
    topics = call.node.image.topics
    asked = (it for it in request.topics or () if it.topic_id == ZERO_UUID)
    names = [it.name for it in asked if it.name is not None]
    return [name for name in dict.fromkeys(names) if name not in topics]


async def create_and_answer(
    request: MetadataRequest, call: Call, names: Sequence[str]
) -> MetadataResponse:
    outcomes = await call.node.controller.create_topics(
        [NewTopic(name=name) for name in names if not is_internal(name)]
    )
    ordinary = [name for name in names if not is_internal(name)]
    refusals: dict[str, ErrorCode] = {
        name: outcome.code
        for name, outcome in zip(ordinary, outcomes, strict=True)
        if isinstance(outcome, Refusal) and outcome.code is not ErrorCode.TOPIC_ALREADY_EXISTS
    }
    return answer(request, call, refusals)


def answer(
    request: MetadataRequest, call: Call, refusals: dict[str, ErrorCode]
) -> MetadataResponse:
    image = call.node.image
    wants_all = request.topics is None or (
        call.version < EMPTY_MEANS_ALL_BELOW_VERSION and not request.topics
    )
    if wants_all:
        topics = [topic_row(topic) for topic in image.topics.values()]
    else:
        once = {(it.name, it.topic_id): it for it in request.topics or ()}
        topics = [named_topic_row(it, call, refusals) for it in once.values()]
    if request.include_topic_authorized_operations:
        topics = [it.replace(topic_authorized_operations=ALL_ON_A_TOPIC) for it in topics]
    return MetadataResponse(
        brokers=broker_rows(call),
        cluster_id=image.cluster_id,
        controller_id=image.controller_id,
        topics=topics,
        cluster_authorized_operations=(
            ALL_ON_A_CLUSTER if request.include_cluster_authorized_operations else NOT_ASKED
        ),
    )


def broker_rows(call: Call) -> list[MetadataResponseBroker]:
    """The brokers that can be reached through the listener the client came by."""
    listener = call.peer.listener
    return [
        MetadataResponseBroker(
            node_id=broker.id,
            host=broker.listeners[listener][0],
            port=broker.listeners[listener][1],
            rack=broker.rack,
        )
        for broker in call.node.image.brokers.values()
        if not broker.fenced and listener in broker.listeners
    ]


def named_topic_row(
    asked: MetadataRequestTopic, call: Call, refusals: dict[str, ErrorCode]
) -> MetadataResponseTopic:
    image = call.node.image
    if asked.name is None or asked.topic_id != ZERO_UUID:
        topic = image.topics_by_id.get(asked.topic_id)
        if topic is not None:
            return topic_row(topic)
        return missing_row(None, asked.topic_id, ErrorCode.UNKNOWN_TOPIC_ID)
    topic = image.topics.get(asked.name)
    if topic is not None:
        return topic_row(topic)
    refusal = refuse_name(asked.name)
    code = refusals.get(asked.name) or (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if refusal is None else refusal.code
    )
    return missing_row(asked.name, ZERO_UUID, code)


def missing_row(name: str | None, topic_id: bytes, code: ErrorCode) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=code,
        name=name,
        topic_id=topic_id,
        is_internal=name is not None and is_internal(name),
        partitions=(),
    )


def topic_row(topic: TopicImage) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=ErrorCode.NONE,
        name=topic.name,
        topic_id=topic.id,
        is_internal=is_internal(topic.name),
        partitions=[partition_row(partition) for partition in topic.partitions],
    )


def partition_row(partition: PartitionImage) -> MetadataResponsePartition:
    has_leader = partition.leader != NO_LEADER
    return MetadataResponsePartition(
        error_code=ErrorCode.NONE if has_leader else ErrorCode.LEADER_NOT_AVAILABLE,
        partition_index=partition.index,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=partition.replicas,
        isr_nodes=partition.in_sync,
    )
