"""A leader in this process and a node that follows it, connected by a real socket."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pykbroker.broker import Broker
from pykbroker.clock import SystemClock
from pykbroker.controller_access import NewTopic
from pykbroker.environment import Environment, SystemNetwork
from pykbroker.generation import Generation
from pykbroker.metadata.image import (
    TOPIC_RESOURCE,
    BrokerImage,
    ClusterImage,
    PartitionImage,
    TopicImage,
)
from pykbroker.partitions.leadership import Leadership
from pykbroker.partitions.partition_registry import Partitions, log_configuration
from pykbroker.replication.cluster_view import ClusterView
from pykbroker.replication.replica_fetchers import ReplicaFetchers
from pykbroker.settings import load_settings
from pykbroker_protocol.records.batch import RecordBatch
from pykbroker_storage.filesystem import LOCAL_DISK, FileSystem
from pykbroker_storage.log_directory import LogDirectory
from tests.storage.batches import batch_bytes

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping
    from pathlib import Path

    from pykbroker.partitions.partition import Partition
    from pykbroker.settings import Settings

LEADER, FOLLOWER = 1, 2
FAST = {
    "replica.fetch.backoff.ms": "20",
    "replica.fetch.wait.max.ms": "50",
}
TIMEOUT_SECONDS = 30


async def until(condition: Callable[[], object]) -> None:
    """Waits for a condition; the test fails if it is not true in time."""
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while not condition():  # noqa: ASYNC110 - logs have no event for this
            await asyncio.sleep(0.005)


def produce(partition: Partition, *values: bytes) -> None:
    """Appends one batch as the leader."""
    records = memoryview(batch_bytes(values))
    batch = RecordBatch.parse(records)
    partition.leader.write(batch, SystemClock().now_ms())


@asynccontextmanager
async def leading(directory: Path, **properties: object) -> AsyncIterator[Broker]:
    given = {name.replace("_", "."): str(value) for name, value in properties.items()}
    settings = load_settings(
        {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(directory), **given}
    )
    broker = await Broker.start(settings, Environment())
    try:
        yield broker
    finally:
        await broker.stop()


async def create(broker: Broker, name: str, partitions: int = 1, **configuration: str) -> None:
    """Creates a topic; its partitions have a second replica on the follower."""
    given = {key.replace("_", "."): value for key, value in configuration.items()}
    await broker.controller.create_topics(
        [NewTopic(name=name, partitions=partitions, configuration=given)]
    )
    await until(lambda: broker.partitions.get(name, partitions - 1))
    for index in range(partitions):
        led = broker.partitions.get(name, index)
        assert led is not None
        before = led.leadership
        led.lead_or_follow(
            Leadership(
                leader=LEADER,
                leader_epoch=before.leader_epoch,
                partition_epoch=before.partition_epoch + 1,
                replicas=(LEADER, FOLLOWER),
                in_sync=(LEADER,),
            )
        )


@dataclass
class Follower:
    """The partitions and fetchers of a broker, without its other parts."""

    path: Path
    properties: dict[str, str] = field(default_factory=dict)
    disk: FileSystem = LOCAL_DISK
    image: ClusterImage = field(default_factory=lambda: ClusterImage(cluster_id="c"))
    clock: SystemClock = field(default_factory=SystemClock)
    settings: Settings = field(init=False)
    directory: LogDirectory = field(init=False)
    partitions: Partitions = field(init=False)
    fetchers: ReplicaFetchers = field(init=False)

    def __post_init__(self) -> None:
        self.settings = load_settings({"node.id": str(FOLLOWER), **FAST, **self.properties})
        self.open()

    def open(self) -> None:
        self.directory = LogDirectory.open(
            str(self.path),
            cluster_id="c",
            node_id=FOLLOWER,
            new_directory_id=bytes(16),
            configuration=log_configuration(self.settings.topic_defaults),
            filesystem=self.disk,
        )
        self.partitions = Partitions(
            node_id=FOLLOWER,
            directory=self.directory,
            settings=self.settings,
            clock=self.clock,
            generation=Generation(),
        )
        self.fetchers = ReplicaFetchers(
            ClusterView(
                node_id=FOLLOWER,
                current_settings=lambda: self.settings,
                current_image=lambda: self.image,
                current_broker_epoch=lambda: 7,
            ),
            self.partitions,
            clock=self.clock,
            connect=SystemNetwork().connect,
        )
        self.partitions.observer = self.fetchers

    def know(self, broker_id: int, port: int) -> None:
        """Registers a broker that listens on a port of this host."""
        self.image.features["metadata.version"] = 30
        self.image.brokers[broker_id] = BrokerImage(
            id=broker_id,
            epoch=1,
            incarnation_id=bytes(16),
            listeners={"PLAINTEXT": ("127.0.0.1", port)},
            security_protocols={},
            rack=None,
            fenced=False,
            directories=(),
            features={},
        )

    def follow(
        self,
        topic: str,
        topic_id: bytes,
        *,
        partitions: int = 1,
        leader: int = LEADER,
        leader_epoch: int = 0,
        replicas: tuple[int, ...] = (LEADER, FOLLOWER),
        configuration: Mapping[str, str] | None = None,
    ) -> None:
        """Applies metadata in which `leader` leads all partitions of a topic."""
        found = TopicImage(
            name=topic,
            id=topic_id,
            partitions=tuple(
                PartitionImage(
                    index=index,
                    replicas=replicas,
                    in_sync=(leader,),
                    leader=leader,
                    leader_epoch=leader_epoch,
                    partition_epoch=leader_epoch,
                    directories=(),
                )
                for index in range(partitions)
            ),
        )
        self.image.topics[topic] = self.image.topics_by_id[topic_id] = found
        if configuration:
            self.image.configurations[TOPIC_RESOURCE, topic] = configuration
        self.partitions.apply_metadata(self.image, [found])

    def follow_broker(self, broker: Broker, topic: str) -> None:
        """Follows a partition as the image of its leader describes it."""
        self.know(LEADER, broker.bound_port)
        found = broker.image.topics[topic]
        self.follow(
            topic,
            found.id,
            partitions=len(found.partitions),
            leader_epoch=found.partitions[0].leader_epoch,
            configuration=broker.image.configurations.get((TOPIC_RESOURCE, topic)),
        )

    def partition(self, topic: str, index: int = 0) -> Partition:
        found = self.partitions.get(topic, index)
        assert found is not None
        return found

    async def stop(self) -> None:
        await self.fetchers.close()
        await self.partitions.flush_threads.end()
        await self.partitions.off_loop.close()
        self.directory.close(self.partitions.high_watermarks(), now_ms=self.clock.now_ms())

    async def crash(self) -> None:
        await self.fetchers.close()
        await self.partitions.flush_threads.end()
        await self.partitions.off_loop.close()
        self.directory.abandon()


@asynccontextmanager
async def following(
    directory: Path, disk: FileSystem = LOCAL_DISK, **properties: object
) -> AsyncIterator[Follower]:
    given = {name.replace("_", "."): str(value) for name, value in properties.items()}
    follower = Follower(directory, given, disk)
    try:
        yield follower
    finally:
        await follower.stop()
