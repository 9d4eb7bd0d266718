"""The cluster as the records so far describe it; nothing but a replayed record changes it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pykbroker.metadata.topic_names import can_collide, unified
from pykbroker_protocol.late_dataclass import dataclass, field
from pykbroker_protocol.metadata.cluster import (
    BrokerRegistrationChangeRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    NoOpRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)
from pykbroker_protocol.metadata.topics import (
    ClearElrRecord,
    ConfigRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from pykbroker_protocol.message import Message

NO_LEADER = -1
NO_LEADER_CHANGE = -2
NO_RECOVERY_CHANGE = -1
NO_CONTROLLER = -1
NO_OFFSET = -1
FIRST_PRODUCER_ID = 0

TOPIC_RESOURCE = 2
BROKER_RESOURCE = 4
GROUP_RESOURCE = 32
"""The types of resources that have a configuration, as Kafka numbers them."""


class UnsupportedRecord(Exception):
    """The metadata log says something this node would forget; the message names it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionImage:
    """Who holds a partition and who leads it."""

    index: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    directories: tuple[bytes, ...]
    removing: tuple[int, ...] = ()
    adding: tuple[int, ...] = ()
    leader_recovery_state: int = 0
    eligible: tuple[int, ...] = ()
    """Not in sync any longer, but with all that is committed (KIP-966)."""
    last_known: tuple[int, ...] = ()
    """Who may lead when nobody is in sync or eligible."""


@dataclass(slots=True, kw_only=True)
class TopicImage:
    """A topic; the list has one entry for each index and is changed by replay alone."""

    name: str
    id: bytes
    partitions: list[PartitionImage] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerImage:
    """A registered broker; a fenced one is known but neither leads nor counts."""

    id: int
    epoch: int
    incarnation_id: bytes
    listeners: Mapping[str, tuple[str, int]]
    security_protocols: Mapping[str, int]
    rack: str | None
    fenced: bool
    directories: tuple[bytes, ...]
    features: Mapping[str, tuple[int, int]]
    in_controlled_shutdown: bool = False


class ClusterImage:
    """One writer; readers on the same event loop see whole commits only."""

    __slots__ = (
        "brokers",
        "cluster_id",
        "configurations",
        "controller_id",
        "features",
        "next_producer_id",
        "offset",
        "topics",
        "topics_by_id",
        "unified_names",
    )

    def __init__(self, *, cluster_id: str, controller_id: int = NO_CONTROLLER) -> None:
        self.cluster_id = cluster_id
        self.controller_id = controller_id
        self.offset = NO_OFFSET
        """Of the last record in the image."""
        self.topics: dict[str, TopicImage] = {}
        self.topics_by_id: dict[bytes, TopicImage] = {}
        self.unified_names: dict[str, str] = {}
        """Topics whose names could collide with others, by what they are in metrics."""
        self.brokers: dict[int, BrokerImage] = {}
        self.configurations: dict[tuple[int, str], dict[str, str]] = {}
        self.features: dict[str, int] = {}
        self.next_producer_id = FIRST_PRODUCER_ID

    def partition_count(self, topic: str) -> int:
        """None, if there is no such topic."""
        found = self.topics.get(topic)
        return 0 if found is None else len(found.partitions)

    def apply(self, record: Message) -> None:
        """Take one record in."""
        try:
            replay = _REPLAYS[type(record)]
        except KeyError:
            raise UnsupportedRecord(
                f"the metadata log holds a {type(record).__name__}, which this node cannot keep"
            ) from None
        replay(self, record)


def add_topic(image: ClusterImage, record: TopicRecord) -> None:
    assert record.name not in image.topics, f"topic {record.name} is there already"
    topic = TopicImage(name=record.name, id=record.topic_id)
    image.topics[topic.name] = image.topics_by_id[topic.id] = topic
    if can_collide(topic.name):
        image.unified_names[unified(topic.name)] = topic.name


def remove_topic(image: ClusterImage, record: RemoveTopicRecord) -> None:
    topic = image.topics_by_id.pop(record.topic_id)
    del image.topics[topic.name]
    image.unified_names.pop(unified(topic.name), None)
    image.configurations.pop((TOPIC_RESOURCE, topic.name), None)


def put_partition(image: ClusterImage, record: PartitionRecord) -> None:
    partitions = image.topics_by_id[record.topic_id].partitions
    partition = partition_of(record)
    index = partition.index
    if index < len(partitions):
        partitions[index] = partition
        return
    while len(partitions) < index:  # a snapshot may tell them in any order
        partitions.append(not_told_yet(len(partitions)))
    partitions.append(partition)


def change_partition(image: ClusterImage, record: PartitionChangeRecord) -> None:
    partitions = image.topics_by_id[record.topic_id].partitions
    partitions[record.partition_id] = changed(partitions[record.partition_id], record)


def clear_eligible(image: ClusterImage, record: ClearElrRecord) -> None:
    """Of one topic, or of all if it names none."""
    named = [image.topics[record.topic_name]] if record.topic_name else image.topics.values()
    for topic in named:
        topic.partitions[:] = [replace(it, eligible=(), last_known=()) for it in topic.partitions]


def configure(image: ClusterImage, record: ConfigRecord) -> None:
    resource = record.resource_type, record.resource_name
    if record.value is not None:
        image.configurations.setdefault(resource, {})[record.name] = record.value
        return
    values = image.configurations.get(resource, {})
    values.pop(record.name, None)
    if not values:
        image.configurations.pop(resource, None)


def register_broker(image: ClusterImage, record: RegisterBrokerRecord) -> None:
    image.brokers[record.broker_id] = BrokerImage(
        id=record.broker_id,
        epoch=record.broker_epoch,
        incarnation_id=record.incarnation_id,
        listeners={it.name: (it.host, it.port) for it in record.end_points},
        security_protocols={it.name: it.security_protocol for it in record.end_points},
        rack=record.rack,
        fenced=record.fenced,
        directories=tuple(record.log_dirs),
        features={
            it.name: (it.min_supported_version, it.max_supported_version) for it in record.features
        },
        in_controlled_shutdown=record.in_controlled_shutdown,
    )


def unregister_broker(image: ClusterImage, record: UnregisterBrokerRecord) -> None:
    del image.brokers[record.broker_id]


def change_registration(image: ClusterImage, record: BrokerRegistrationChangeRecord) -> None:
    broker = image.brokers[record.broker_id]
    image.brokers[record.broker_id] = replace(
        broker,
        fenced=_switched(broker.fenced, record.fenced),
        in_controlled_shutdown=_switched(
            broker.in_controlled_shutdown, record.in_controlled_shutdown
        ),
        directories=tuple(record.log_dirs) or broker.directories,
    )


def fence(image: ClusterImage, record: FenceBrokerRecord) -> None:
    image.brokers[record.id] = replace(image.brokers[record.id], fenced=True)


def unfence(image: ClusterImage, record: UnfenceBrokerRecord) -> None:
    image.brokers[record.id] = replace(image.brokers[record.id], fenced=False)


def set_feature(image: ClusterImage, record: FeatureLevelRecord) -> None:
    if record.feature_level:
        image.features[record.name] = record.feature_level
    else:
        image.features.pop(record.name, None)


def set_producer_ids(image: ClusterImage, record: ProducerIdsRecord) -> None:
    image.next_producer_id = record.next_producer_id


def ignore(_: ClusterImage, __: Message) -> None:
    """A record that says nothing we keep: a sign of life, an address we do not use."""


_REPLAYS: dict[type[Message], Callable[[ClusterImage, Any], None]] = {
    TopicRecord: add_topic,
    RemoveTopicRecord: remove_topic,
    PartitionRecord: put_partition,
    PartitionChangeRecord: change_partition,
    ConfigRecord: configure,
    RegisterBrokerRecord: register_broker,
    UnregisterBrokerRecord: unregister_broker,
    BrokerRegistrationChangeRecord: change_registration,
    FenceBrokerRecord: fence,
    UnfenceBrokerRecord: unfence,
    FeatureLevelRecord: set_feature,
    ProducerIdsRecord: set_producer_ids,
    NoOpRecord: ignore,
    RegisterControllerRecord: ignore,
    ClearElrRecord: clear_eligible,
}


def partition_of(record: PartitionRecord) -> PartitionImage:
    return PartitionImage(
        index=record.partition_id,
        replicas=tuple(record.replicas),
        in_sync=tuple(record.isr),
        leader=record.leader,
        leader_epoch=record.leader_epoch,
        partition_epoch=record.partition_epoch,
        directories=tuple(record.directories),
        removing=tuple(record.removing_replicas),
        adding=tuple(record.adding_replicas),
        leader_recovery_state=record.leader_recovery_state,
        eligible=tuple(record.eligible_leader_replicas or ()),
        last_known=tuple(record.last_known_elr or ()),
    )


def changed(partition: PartitionImage, record: PartitionChangeRecord) -> PartitionImage:
    """Every change is a new partition epoch, every named leader a new leader epoch."""
    leads_anew = record.leader != NO_LEADER_CHANGE
    recovery = record.leader_recovery_state
    return PartitionImage(
        index=partition.index,
        replicas=_unless_none(record.replicas, partition.replicas),
        in_sync=_unless_none(record.isr, partition.in_sync),
        leader=record.leader if leads_anew else partition.leader,
        leader_epoch=partition.leader_epoch + leads_anew,
        partition_epoch=partition.partition_epoch + 1,
        directories=_unless_none(record.directories, partition.directories),
        removing=_unless_none(record.removing_replicas, partition.removing),
        adding=_unless_none(record.adding_replicas, partition.adding),
        leader_recovery_state=(
            partition.leader_recovery_state if recovery == NO_RECOVERY_CHANGE else recovery
        ),
        eligible=_unless_none(record.eligible_leader_replicas, partition.eligible),
        last_known=_unless_none(record.last_known_elr, partition.last_known),
    )


def _unless_none(told: Any, known: Any) -> Any:
    return known if told is None else tuple(told)


def _switched(was: bool, change: int) -> bool:  # noqa: FBT001  # a state, not a mode
    """A registration change says 1 for on, -1 for off, 0 for as it was."""
    return was if change == 0 else change > 0


def not_told_yet(index: int) -> PartitionImage:
    return PartitionImage(
        index=index,
        replicas=(),
        in_sync=(),
        leader=NO_LEADER,
        leader_epoch=-1,
        partition_epoch=-1,
        directories=(),
    )
