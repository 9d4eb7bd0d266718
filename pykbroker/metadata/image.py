"""The cluster metadata at an offset of the metadata log: topics, brokers, configurations, features.

The values in an image are frozen, so two images of one process share them. The controller decides
against its image; the broker reads another one, which contains committed records only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.metadata.topic_names import unified
from pykbroker_protocol.late_dataclass import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

NO_LEADER = -1
NO_CONTROLLER = -1
NO_OFFSET = -1
FIRST_PRODUCER_ID = 0

TOPIC_RESOURCE = 2
BROKER_RESOURCE = 4
GROUP_RESOURCE = 32
"""Kafka's numbers for the types of resources that have a configuration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionImage:
    """Replicas, in-sync set and leader of a partition."""

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
    """Eligible leader replicas: not in sync, but with all committed records (KIP-966)."""
    last_known: tuple[int, ...] = ()
    """Last known leader, which may lead if no replica is in sync or eligible (KIP-966)."""

    @property
    def is_reassigning(self) -> bool:
        return bool(self.adding or self.removing)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicImage:
    """A topic; `partitions` has one entry for each index."""

    name: str
    id: bytes
    partitions: tuple[PartitionImage, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerImage:
    """A registered broker. A fenced broker neither leads partitions nor is in sync."""

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
    cordoned_directories: tuple[bytes, ...] = ()
    """Directories in which the controller places no replicas by itself (KIP-1066)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageDelta:
    """The effect of consecutive records on an image, as new values; made by `replay.Replay`.

    A value of None in `brokers`, an empty configuration and a feature level of 0 mean removal.
    """

    base_offset: int
    """Offset of the image that the delta applies to."""
    last_offset: int
    topics: Mapping[str, TopicImage]
    """Created and changed topics by name."""
    topics_by_id: Mapping[bytes, TopicImage]
    """The same topics by id."""
    topics_deleted: tuple[TopicImage, ...]
    unified_names: Mapping[str, str]
    configurations: Mapping[tuple[int, str], Mapping[str, str]]
    """All values of each changed resource, by resource type and name."""
    brokers: Mapping[int, BrokerImage | None]
    features: Mapping[str, int]
    next_producer_id: int | None
    controller_id: int | None = None
    """The active controller, if it is another one; no record contains it."""

    @property
    def is_empty(self) -> bool:
        """True if the delta changes at most the offset."""
        return not (
            self.topics
            or self.topics_deleted
            or self.configurations
            or self.brokers
            or self.features
            or self.next_producer_id is not None
            or self.controller_id is not None
        )


class ClusterImage:
    """Cluster metadata as dicts of frozen values; only `apply` changes the dicts.

    `apply` does not yield to the event loop, so readers on the loop see complete batches only.
    """

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
        """Offset of the last record in the image."""
        self.topics: dict[str, TopicImage] = {}
        self.topics_by_id: dict[bytes, TopicImage] = {}
        self.unified_names: dict[str, str] = {}
        """Names of topics that can collide with another name, by the name used in metrics."""
        self.brokers: dict[int, BrokerImage] = {}
        self.configurations: dict[tuple[int, str], Mapping[str, str]] = {}
        self.features: dict[str, int] = {}
        self.next_producer_id = FIRST_PRODUCER_ID

    def partition_count(self, topic: str) -> int:
        """Returns 0 if the topic does not exist."""
        found = self.topics.get(topic)
        return 0 if found is None else len(found.partitions)

    def copy(self) -> ClusterImage:
        """Returns an image with dicts of its own and the same values."""
        image = ClusterImage(cluster_id=self.cluster_id, controller_id=self.controller_id)
        image.offset = self.offset
        image.topics = self.topics.copy()
        image.topics_by_id = self.topics_by_id.copy()
        image.unified_names = self.unified_names.copy()
        image.brokers = self.brokers.copy()
        image.configurations = self.configurations.copy()
        image.features = self.features.copy()
        image.next_producer_id = self.next_producer_id
        return image

    def apply(self, delta: ImageDelta) -> None:
        """Moves the image to the last offset of the delta."""
        assert delta.base_offset == self.offset, f"{delta.base_offset} is not {self.offset}"
        for topic in delta.topics_deleted:
            del self.topics[topic.name], self.topics_by_id[topic.id]
            self.unified_names.pop(unified(topic.name), None)
        self.topics.update(delta.topics)
        self.topics_by_id.update(delta.topics_by_id)
        self.unified_names.update(delta.unified_names)
        for resource, values in delta.configurations.items():
            if values:
                self.configurations[resource] = values
            else:
                self.configurations.pop(resource, None)
        for broker_id, broker in delta.brokers.items():
            if broker is None:
                self.brokers.pop(broker_id, None)
            else:
                self.brokers[broker_id] = broker
        for name, level in delta.features.items():
            if level:
                self.features[name] = level
            else:
                self.features.pop(name, None)
        if delta.next_producer_id is not None:
            self.next_producer_id = delta.next_producer_id
        if delta.controller_id is not None:
            self.controller_id = delta.controller_id
        self.offset = delta.last_offset
