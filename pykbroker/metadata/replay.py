"""Replays metadata records into a delta against an image; the image itself does not change."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pykbroker.metadata.image import (
    NO_LEADER,
    TOPIC_RESOURCE,
    BrokerImage,
    ImageDelta,
    PartitionImage,
    TopicImage,
)
from pykbroker.metadata.topic_names import can_collide, unified
from pykbroker_protocol.compiler import SLICE_ELEMENTS
from pykbroker_protocol.message import ZERO_UUID
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
    from collections.abc import Callable, Iterable

    from pykbroker.metadata.image import ClusterImage
    from pykbroker.slices import Slices
    from pykbroker_protocol.message import Message

NO_LEADER_CHANGE = -2
NO_RECOVERY_CHANGE = -1

PARTITIONS_PER_TOPIC_MAX = 1_000_000
"""Bounds the list that a corrupt partition index can create; Apache Kafka creates fewer."""


class UnsupportedRecord(Exception):
    """The metadata log contains a record type that an image does not keep."""


class InconsistentRecord(Exception):
    """A record does not fit the records before it: its object exists already, or does not exist."""


def replay(
    image: ClusterImage, records: Iterable[Message], *, last_offset: int
) -> Slices[ImageDelta]:
    """Returns the delta of records up to `last_offset`."""
    collected = Replay(image)
    for count, record in enumerate(records):
        if count % SLICE_ELEMENTS == SLICE_ELEMENTS - 1:
            yield
        collected.add(record)
    return (yield from collected.finish(last_offset))


class Replay:
    """Collects the effect of records on an image, which must not change meanwhile."""

    def __init__(self, image: ClusterImage) -> None:
        self._image = image
        self._created: dict[bytes, str] = {}
        self._created_ids: dict[str, bytes] = {}
        self._partitions: dict[bytes, list[PartitionImage]] = {}
        """Partitions of created and changed topics."""
        self._deleted: dict[bytes, TopicImage] = {}
        self._unified_names: dict[str, str] = {}
        self._configurations: dict[tuple[int, str], dict[str, str]] = {}
        self._brokers: dict[int, BrokerImage | None] = {}
        self._features: dict[str, int] = {}
        self._next_producer_id: int | None = None
        self._tuples: dict[Any, Any] = {}
        """Equal replica lists and directory lists are stored once."""

    def add(self, record: Message) -> None:
        try:
            add = _REPLAYS[type(record)]
        except KeyError:
            raise UnsupportedRecord(
                f"the metadata log contains a {type(record).__name__}, "
                "which this version does not support"
            ) from None
        try:
            add(self, record)
        except KeyError as missing:
            raise InconsistentRecord(
                f"{type(record).__name__}: {missing.args[0]!r} does not exist"
            ) from missing

    def finish(self, last_offset: int) -> Slices[ImageDelta]:
        topics: dict[str, TopicImage] = {}
        topics_by_id: dict[bytes, TopicImage] = {}
        for count, (topic_id, partitions) in enumerate(self._partitions.items()):
            if count % SLICE_ELEMENTS == SLICE_ELEMENTS - 1:
                yield
            name = self._name(topic_id)
            topic = TopicImage(name=name, id=topic_id, partitions=tuple(partitions))
            topics[name] = topics_by_id[topic_id] = topic
        return ImageDelta(
            base_offset=self._image.offset,
            last_offset=last_offset,
            topics=topics,
            topics_by_id=topics_by_id,
            topics_deleted=tuple(self._deleted.values()),
            unified_names=self._unified_names,
            configurations=self._configurations,
            brokers=self._brokers,
            features=self._features,
            next_producer_id=self._next_producer_id,
        )

    # --- topics

    def add_topic(self, record: TopicRecord) -> None:
        if self._id(record.name) is not None:
            raise InconsistentRecord(f"TopicRecord: topic {record.name} exists already")
        self._created[record.topic_id] = record.name
        self._created_ids[record.name] = record.topic_id
        self._partitions[record.topic_id] = []
        if can_collide(record.name):
            self._unified_names[unified(record.name)] = record.name

    def _id(self, name: str) -> bytes | None:
        created = self._created_ids.get(name)
        if created is not None:
            return created
        known = self._image.topics.get(name)
        return None if known is None or known.id in self._deleted else known.id

    def remove_topic(self, record: RemoveTopicRecord) -> None:
        name = self._name(record.topic_id)
        if self._created.pop(record.topic_id, None) is not None:
            del self._created_ids[name]
        else:
            self._deleted[record.topic_id] = self._image.topics_by_id[record.topic_id]
        self._partitions.pop(record.topic_id, None)
        self._unified_names.pop(unified(name), None)
        resource = TOPIC_RESOURCE, name
        if resource in self._image.configurations:
            self._configurations[resource] = {}
        else:
            self._configurations.pop(resource, None)

    def _name(self, topic_id: bytes) -> str:
        name = self._created.get(topic_id)
        if name is None and topic_id in self._deleted:
            raise KeyError(topic_id)
        return self._image.topics_by_id[topic_id].name if name is None else name

    def _partitions_of(self, topic_id: bytes) -> list[PartitionImage]:
        partitions = self._partitions.get(topic_id)
        if partitions is None:
            if topic_id in self._deleted:
                raise KeyError(topic_id)
            known = self._image.topics_by_id[topic_id].partitions
            partitions = self._partitions[topic_id] = list(known)
        return partitions

    def put_partition(self, record: PartitionRecord) -> None:
        partitions = self._partitions_of(record.topic_id)
        partition = self._partition_of(record)
        index = partition.index
        if not 0 <= index < PARTITIONS_PER_TOPIC_MAX:
            raise InconsistentRecord(f"PartitionRecord: partition {index} is out of range")
        if index < len(partitions):
            partitions[index] = partition
            return
        while len(partitions) < index:  # a snapshot may contain partitions in any order
            partitions.append(_placeholder(len(partitions)))
        partitions.append(partition)

    def _partition_of(self, record: PartitionRecord) -> PartitionImage:
        shared = self._shared
        replicas = shared(record.replicas)
        return PartitionImage(
            index=record.partition_id,
            replicas=replicas,
            in_sync=shared(record.isr),
            leader=record.leader,
            leader_epoch=record.leader_epoch,
            partition_epoch=record.partition_epoch,
            directories=self._directories(record.directories, replicas),
            removing=tuple(record.removing_replicas),
            adding=tuple(record.adding_replicas),
            leader_recovery_state=record.leader_recovery_state,
            eligible=tuple(record.eligible_leader_replicas or ()),
            last_known=tuple(record.last_known_elr or ()),
        )

    def _directories(
        self, directories: Iterable[bytes], replicas: tuple[int, ...]
    ) -> tuple[bytes, ...]:
        """Returns one directory for each replica; records before 3.7-IV2 have none."""
        found = self._shared(directories)
        return found if len(found) == len(replicas) else self._shared([ZERO_UUID] * len(replicas))

    def _shared(self, values: Iterable[Any]) -> tuple[Any, ...]:
        found = tuple(values)
        shared: tuple[Any, ...] = self._tuples.setdefault(found, found)
        return shared

    def change_partition(self, record: PartitionChangeRecord) -> None:
        partitions = self._partitions_of(record.topic_id)
        if not 0 <= record.partition_id < len(partitions):
            raise KeyError(f"partition {record.partition_id}")
        before = partitions[record.partition_id]
        partitions[record.partition_id] = self._changed(before, record)

    def _changed(self, partition: PartitionImage, record: PartitionChangeRecord) -> PartitionImage:
        """Applies a change: increments the partition epoch and, with a leader, the leader epoch.

        The leader epoch is incremented even if the leader is the same. None leaves a list
        unchanged, an empty list clears it.
        """
        has_leader = record.leader != NO_LEADER_CHANGE
        recovery = record.leader_recovery_state
        changed = self._changed_list
        replicas = changed(record.replicas, partition.replicas)
        return PartitionImage(
            index=partition.index,
            replicas=replicas,
            in_sync=changed(record.isr, partition.in_sync),
            leader=record.leader if has_leader else partition.leader,
            leader_epoch=partition.leader_epoch + has_leader,
            partition_epoch=partition.partition_epoch + 1,
            directories=self._directories(
                changed(record.directories, partition.directories), replicas
            ),
            removing=changed(record.removing_replicas, partition.removing),
            adding=changed(record.adding_replicas, partition.adding),
            leader_recovery_state=(
                partition.leader_recovery_state if recovery == NO_RECOVERY_CHANGE else recovery
            ),
            eligible=changed(record.eligible_leader_replicas, partition.eligible),
            last_known=changed(record.last_known_elr, partition.last_known),
        )

    def _changed_list(
        self, changed: Iterable[Any] | None, before: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        return before if changed is None else self._shared(changed)

    def clear_eligible(self, record: ClearElrRecord) -> None:
        """Clears the eligible leader replicas of one topic, or of all if the name is empty."""
        for topic_id in self._topic_ids(record.topic_name):
            partitions = self._partitions_of(topic_id)
            partitions[:] = [replace(it, eligible=(), last_known=()) for it in partitions]

    def _topic_ids(self, name: str) -> list[bytes]:
        if name:
            topic_id = self._id(name)
            if topic_id is None:
                raise KeyError(name)
            return [topic_id]
        return [*(it for it in self._image.topics_by_id if it not in self._deleted), *self._created]

    # --- configurations, features, producer ids

    def configure(self, record: ConfigRecord) -> None:
        resource = record.resource_type, record.resource_name
        values = self._configurations.get(resource)
        if values is None:
            values = dict(self._image.configurations.get(resource, {}))
            self._configurations[resource] = values
        if record.value is None:
            values.pop(record.name, None)
        else:
            values[record.name] = record.value

    def set_feature(self, record: FeatureLevelRecord) -> None:
        self._features[record.name] = record.feature_level

    def set_producer_ids(self, record: ProducerIdsRecord) -> None:
        self._next_producer_id = record.next_producer_id

    # --- brokers

    def register_broker(self, record: RegisterBrokerRecord) -> None:
        self._brokers[record.broker_id] = BrokerImage(
            id=record.broker_id,
            epoch=record.broker_epoch,
            incarnation_id=record.incarnation_id,
            listeners={it.name: (it.host, it.port) for it in record.end_points},
            security_protocols={it.name: it.security_protocol for it in record.end_points},
            rack=record.rack,
            fenced=record.fenced,
            directories=tuple(record.log_dirs),
            features={
                it.name: (it.min_supported_version, it.max_supported_version)
                for it in record.features
            },
            in_controlled_shutdown=record.in_controlled_shutdown,
            cordoned_directories=tuple(record.cordoned_log_dirs or ()),
        )

    def unregister_broker(self, record: UnregisterBrokerRecord) -> None:
        self._brokers[self._broker(record.broker_id).id] = None

    def change_registration(self, record: BrokerRegistrationChangeRecord) -> None:
        broker = self._broker(record.broker_id)
        self._brokers[broker.id] = replace(
            broker,
            fenced=_switched(broker.fenced, record.fenced),
            in_controlled_shutdown=_switched(
                broker.in_controlled_shutdown, record.in_controlled_shutdown
            ),
            directories=tuple(record.log_dirs) or broker.directories,
            cordoned_directories=(
                broker.cordoned_directories
                if record.cordoned_log_dirs is None
                else tuple(record.cordoned_log_dirs)
            ),
        )

    def fence(self, record: FenceBrokerRecord) -> None:
        self._brokers[record.id] = replace(self._broker(record.id), fenced=True)

    def unfence(self, record: UnfenceBrokerRecord) -> None:
        self._brokers[record.id] = replace(self._broker(record.id), fenced=False)

    def _broker(self, broker_id: int) -> BrokerImage:
        known = self._brokers if broker_id in self._brokers else self._image.brokers
        broker = known[broker_id]
        if broker is None:
            raise KeyError(broker_id)
        return broker

    def ignore(self, record: Message) -> None:
        """Records without an effect on the image."""


_REPLAYS: dict[type[Message], Callable[[Replay, Any], None]] = {
    TopicRecord: Replay.add_topic,
    RemoveTopicRecord: Replay.remove_topic,
    PartitionRecord: Replay.put_partition,
    PartitionChangeRecord: Replay.change_partition,
    ConfigRecord: Replay.configure,
    RegisterBrokerRecord: Replay.register_broker,
    UnregisterBrokerRecord: Replay.unregister_broker,
    BrokerRegistrationChangeRecord: Replay.change_registration,
    FenceBrokerRecord: Replay.fence,
    UnfenceBrokerRecord: Replay.unfence,
    FeatureLevelRecord: Replay.set_feature,
    ProducerIdsRecord: Replay.set_producer_ids,
    NoOpRecord: Replay.ignore,
    RegisterControllerRecord: Replay.ignore,
    ClearElrRecord: Replay.clear_eligible,
}


def _switched(was: bool, change: int) -> bool:  # noqa: FBT001  # a state, not a mode
    """Returns the new flag of a registration: change 1 sets it, -1 clears it, 0 keeps it."""
    return was if change == 0 else change > 0


def _placeholder(index: int) -> PartitionImage:
    return PartitionImage(
        index=index,
        replicas=(),
        in_sync=(),
        leader=NO_LEADER,
        leader_epoch=-1,
        partition_epoch=-1,
        directories=(),
    )
