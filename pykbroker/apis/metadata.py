"""Metadata: returns brokers, topics and partition leaders.

A request for an unknown topic creates it if both the request and the broker allow that.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from pykbroker.apis.operations import ALL_ON_A_CLUSTER, ALL_ON_A_TOPIC, NOT_ASKED
from pykbroker.apis.reachability import (
    NO_LEADER,
    Reachability,
    controller_id,
)
from pykbroker.apis.slices import Slice, all_of, each, in_slices, sliced
from pykbroker.controller_access import UNSET, NewTopic
from pykbroker.internal_topics import is_internal
from pykbroker.metadata.topic_names import refuse_name
from pykbroker_protocol.errors import ErrorCode, Refusal
from pykbroker_protocol.message import ZERO_UUID
from pykbroker_protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from pykbroker.apis.node import Call
    from pykbroker.apis.slices import Slices
    from pykbroker.metadata.image import PartitionImage, TopicImage
    from pykbroker_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

    PartitionRow: TypeAlias = Callable[[PartitionImage], MetadataResponsePartition]

EMPTY_MEANS_ALL_BELOW_VERSION = 1
NAMES_ONLY = (10, 11)
LISTENER_ERROR_SINCE_VERSION = 6
"""Older clients do not know LISTENER_NOT_FOUND."""


@sliced
def handle(
    request: MetadataRequest, call: Call
) -> Slices[MetadataResponse | Awaitable[MetadataResponse]]:
    count = Slice()
    requested = yield from requested_topics(request, call, count)
    if call.version in NAMES_ONLY and requested.by_id:
        return (yield from reject_topic_ids(request, count))
    may_create = request.allow_auto_topic_creation and call.node.settings.auto_create_topics_enable
    if requested.missing and may_create:
        if call.node.forward is None:
            return create_and_answer(request, call, requested)
        begin_creation(requested.missing, call)
    return (yield from answer(request, call, requested, {}, count))


class RequestedTopics(NamedTuple):
    """The requested topics without repetitions."""

    topics: list[MetadataRequestTopic]
    missing: list[str]
    """Unknown names that can be created."""
    by_id: bool
    """True if a topic is requested by id."""


def requested_topics(request: MetadataRequest, call: Call, count: Slice) -> Slices[RequestedTopics]:
    known = call.node.image.topics
    topics: dict[tuple[str | None, bytes], MetadataRequestTopic] = {}
    missing: dict[str, None] = {}
    by_id = False
    for it in request.topics or ():
        topics[it.name, it.topic_id] = it
        if it.name is None or it.topic_id != ZERO_UUID:
            by_id = True
        elif it.name not in known and not is_internal(it.name):
            missing[it.name] = None
        if count.is_full():
            yield
    return RequestedTopics(list(topics.values()), list(missing), by_id)


def reject_topic_ids(request: MetadataRequest, count: Slice) -> Slices[MetadataResponse]:
    """Versions 10 and 11 have a topic id field that clients must not use (KAFKA-12713)."""
    topics = yield from count.each(
        lambda it: missing_row(it.name or "", it.topic_id, ErrorCode.INVALID_REQUEST),
        request.topics or (),
    )
    return MetadataResponse(brokers=(), topics=topics)


async def create_and_answer(
    request: MetadataRequest, call: Call, requested: RequestedTopics
) -> MetadataResponse:
    outcomes = await call.node.controller.create_topics(
        await each(lambda name: NewTopic(name=name), requested.missing)
    )
    refusals: dict[str, ErrorCode] = {
        name: outcome.code
        for name, outcome in zip(requested.missing, outcomes, strict=True)
        if isinstance(outcome, Refusal) and outcome.code is not ErrorCode.TOPIC_ALREADY_EXISTS
    }
    return await in_slices(answer(request, call, requested, refusals, Slice()))


def begin_creation(names: Sequence[str], call: Call) -> None:
    """Lets the controller create topics; as in Apache Kafka, the response does not wait for it.

    Properties that are not in the file of this broker have the defaults of the controller.
    """
    settings, forward = call.node.settings, call.node.forward
    assert forward is not None, "the controller is another process"
    given = settings.layers.static
    topics = [
        NewTopic(
            name=name,
            partitions=settings.num_partitions if "num.partitions" in given else UNSET,
            replication_factor=(
                settings.default_replication_factor
                if "default.replication.factor" in given
                else UNSET
            ),
        )
        for name in names
        if refuse_name(name) is None
    ]
    forward.begin_topic_creation(topics, call.client)


def answer(
    request: MetadataRequest,
    call: Call,
    requested: RequestedTopics,
    refusals: dict[str, ErrorCode],
    count: Slice,
) -> Slices[MetadataResponse]:
    image = call.node.image
    requests_all = request.topics is None or (
        call.version < EMPTY_MEANS_ALL_BELOW_VERSION and not request.topics
    )
    operations = ALL_ON_A_TOPIC if request.include_topic_authorized_operations else NOT_ASKED
    parts = RowParts(operations, partition_row_of(call), count)
    if requests_all:
        rows = (topic_row(it, parts) for it in list(image.topics.values()))
    else:
        rows = (named_topic_row(it, call, refusals, parts) for it in requested.topics)
    topics = yield from all_of(rows)
    return MetadataResponse(
        brokers=broker_rows(call),
        cluster_id=image.cluster_id,
        controller_id=controller_id(call),
        topics=topics,
        cluster_authorized_operations=(
            ALL_ON_A_CLUSTER if request.include_cluster_authorized_operations else NOT_ASKED
        ),
    )


def broker_rows(call: Call) -> list[MetadataResponseBroker]:
    """Returns the live brokers that have the listener of the client."""
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


class RowParts(NamedTuple):
    """Common parts of the rows of all topics in a response."""

    operations: int
    partition_row: PartitionRow
    progress: Slice


def named_topic_row(
    requested: MetadataRequestTopic, call: Call, refusals: dict[str, ErrorCode], parts: RowParts
) -> Slices[MetadataResponseTopic]:
    image = call.node.image
    if requested.name is None or requested.topic_id != ZERO_UUID:
        name, topic = None, image.topics_by_id.get(requested.topic_id)
    else:
        name, topic = requested.name, image.topics.get(requested.name)
    if topic is not None:
        return (yield from topic_row(topic, parts))
    if parts.progress.is_full():
        yield
    if name is None:
        return missing_row(None, requested.topic_id, ErrorCode.UNKNOWN_TOPIC_ID, parts.operations)
    code = refusals.get(name) or code_of_missing(name)
    return missing_row(name, ZERO_UUID, code, parts.operations)


def code_of_missing(name: str) -> ErrorCode:
    refusal = refuse_name(name)
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if refusal is None else refusal.code


def missing_row(
    name: str | None, topic_id: bytes, code: ErrorCode, operations: int = NOT_ASKED
) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=code,
        name=name,
        topic_id=topic_id,
        is_internal=name is not None and is_internal(name),
        partitions=(),
        topic_authorized_operations=operations,
    )


def topic_row(topic: TopicImage, parts: RowParts) -> Slices[MetadataResponseTopic]:
    partitions = yield from parts.progress.each(parts.partition_row, topic.partitions)
    return MetadataResponseTopic(
        error_code=ErrorCode.NONE,
        name=topic.name,
        topic_id=topic.id,
        is_internal=is_internal(topic.name),
        partitions=partitions,
        topic_authorized_operations=parts.operations,
    )


def partition_row_of(call: Call) -> PartitionRow:
    """Returns the function that makes the rows of a response."""
    reachability = Reachability(call)
    if call.version == 0:
        return partial(oldest_row, reachability)
    leaders, offline = reachability.leaders, reachability.offline
    knows_listeners = call.version >= LISTENER_ERROR_SINCE_VERSION

    def partition_row(partition: PartitionImage) -> MetadataResponsePartition:
        leader = partition.leader
        code = leaders[leader]
        if code:
            leader = NO_LEADER
            code = code if knows_listeners else ErrorCode.LEADER_NOT_AVAILABLE
        return MetadataResponsePartition(
            error_code=code,
            partition_index=partition.index,
            leader_id=leader,
            leader_epoch=partition.leader_epoch,
            replica_nodes=partition.replicas,
            isr_nodes=partition.in_sync,
            offline_replicas=offline[partition.replicas, partition.directories],
        )

    return partition_row


def oldest_row(reachability: Reachability, partition: PartitionImage) -> MetadataResponsePartition:
    """Version 0 has only brokers that are live, and an error if one is missing."""
    code = reachability.leaders[partition.leader]
    replicas = reachability.usable(partition.replicas)
    in_sync = reachability.usable(partition.in_sync)
    if code:
        code = ErrorCode.LEADER_NOT_AVAILABLE
    elif len(replicas) < len(partition.replicas) or len(in_sync) < len(partition.in_sync):
        code = ErrorCode.REPLICA_NOT_AVAILABLE
    has_leader = code in (ErrorCode.NONE, ErrorCode.REPLICA_NOT_AVAILABLE)
    return MetadataResponsePartition(
        error_code=code,
        partition_index=partition.index,
        leader_id=partition.leader if has_leader else NO_LEADER,
        replica_nodes=replicas,
        isr_nodes=in_sync,
    )
