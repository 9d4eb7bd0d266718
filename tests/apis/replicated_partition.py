"""A partition of one broker whose metadata names two followers, and followers in the test."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pykbroker.apis.repeated_produce import Repeats
from pykbroker.controller_access import NewTopic
from pykbroker.metadata.image import BrokerImage, TopicImage
from pykbroker_protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    PartitionData,
    ReplicaState,
)
from pykbroker_protocol.records.batch import iterate_batches
from pykbroker_storage.filesystem import VolatileDisk
from tests.apis.one_broker import Client, answer_of, broker_on
from tests.apis.request_builders import batch, produced, to_partition

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from pykbroker.broker import Broker
    from pykbroker.partitions.in_sync import InSyncProposal
    from pykbroker.partitions.leader_context import Proposer
    from pykbroker.partitions.leadership import Leadership
    from pykbroker.partitions.partition import Partition

LEADER, FOLLOWER, OTHER = 1, 2, 3
EPOCHS = {FOLLOWER: 20, OTHER: 30}
REPLICA_STATE_SINCE_VERSION, TOPIC_IDS_SINCE_VERSION = 15, 13


def broker_image(broker_id: int, epoch: int, **more: Any) -> BrokerImage:
    return BrokerImage(
        **{
            "id": broker_id,
            "epoch": epoch,
            "incarnation_id": bytes(16),
            "listeners": {"PLAINTEXT": (f"host-{broker_id}", 9092)},
            "security_protocols": {},
            "rack": None,
            "fenced": False,
            "directories": (bytes(16),),
            "features": {},
            **more,
        }
    )


@dataclass
class Replicated:
    """The leader of `orders-0`, with clients that are followers."""

    broker: Broker
    partition: Partition
    proposals: list[tuple[Proposer, InSyncProposal]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.producer = Client(self.broker)
        self.consumer = Client(self.broker)

    @property
    def end(self) -> int:
        return self.partition.log.log_end_offset

    @property
    def leadership(self) -> Leadership:
        return self.partition.leadership

    @property
    def repeats_of_producer(self) -> int:
        """The number of Produce requests that the fast path has learnt."""
        repeats = self.producer.peer.repeats
        return len(repeats._known) if isinstance(repeats, Repeats) else 0

    def lead(self, **changes: Any) -> None:
        """Delivers metadata of this partition with the next partition epoch."""
        before = self.leadership
        changed = {"partition_epoch": before.partition_epoch + 1, **changes}
        self.partition.lead_or_follow(replace(before, **changed))
        self.change_image(self.leadership)

    def change_image(self, leadership: Leadership) -> None:
        image = self.broker.image
        topic = image.topics["orders"]
        partition = replace(
            topic.partitions[0],
            replicas=leadership.replicas,
            in_sync=leadership.in_sync,
            leader=leadership.leader,
            leader_epoch=leadership.leader_epoch,
            partition_epoch=leadership.partition_epoch,
        )
        changed = TopicImage(name=topic.name, id=topic.id, partitions=(partition,))
        image.topics["orders"] = image.topics_by_id[topic.id] = changed

    def produce(self, *values: bytes, acks: int = 1, timeout_ms: int = 60_000) -> Any:
        """Returns the response, or its future."""
        data = to_partition(batch(*values), topic="orders")
        request = produced(data, acks=acks).replace(timeout_ms=timeout_ms)
        return self.producer.ask(request, 12)

    async def wrote(self, *values: bytes, acks: int = 1) -> Any:
        response = await answer_of(self.produce(*values, acks=acks))
        return response.responses[0].partition_responses[0]

    def request(
        self, offset: int, *, version: int, replica: int | None, **more: Any
    ) -> FetchRequest:
        """A fetch of a follower, or of a consumer for None."""
        partition = FetchPartition(
            partition=0,
            fetch_offset=offset,
            partition_max_bytes=1 << 20,
            log_start_offset=more.pop("log_start", 0),
            current_leader_epoch=more.pop("leader_epoch", self.leadership.leader_epoch),
            last_fetched_epoch=more.pop("last_epoch", -1),
        )
        epoch = more.pop("broker_epoch", EPOCHS.get(replica or 0, -1))
        if replica is not None:
            if version >= REPLICA_STATE_SINCE_VERSION:
                more["replica_state"] = ReplicaState(replica_id=replica, replica_epoch=epoch)
            else:
                more["replica_id"] = replica
        has_ids = version >= TOPIC_IDS_SINCE_VERSION
        topic = FetchTopic(
            **({"topic_id": self.partition.topic_id} if has_ids else {"topic": "orders"}),
            partitions=[partition],
        )
        return FetchRequest(
            **{
                "max_wait_ms": 0,
                "min_bytes": 1,
                "max_bytes": 10 << 20,
                "session_epoch": -1,
                "topics": [topic],
                **more,
            }
        )

    def fetch(
        self, offset: int, *, replica: int | None = FOLLOWER, version: int = 18, **more: Any
    ) -> Any:
        """Returns the response, or its future."""
        client = self.consumer if replica is None else Client(self.broker)
        return client.ask(self.request(offset, version=version, replica=replica, **more), version)

    async def fetched(self, offset: int, **more: Any) -> PartitionData:
        return only(await answer_of(self.fetch(offset, **more)))


def only(response: Any) -> PartitionData:
    assert response.error_code == 0
    return response.responses[0].partitions[0]  # type: ignore[no-any-return]


def offsets_in(row: PartitionData) -> list[int]:
    assert row.records is not None
    return [it.base_offset for it in iterate_batches(memoryview(row.records))]


@asynccontextmanager
async def replicated(
    directory: Path,
    *,
    in_sync: tuple[int, ...] = (LEADER, FOLLOWER, OTHER),
    **properties: object,
) -> AsyncIterator[Replicated]:
    async with broker_on(VolatileDisk(), directory, **properties) as broker:
        await broker.controller.create_topics(
            [NewTopic(name="orders", partitions=1, replication_factor=1)]
        )
        partition = broker.partitions.get("orders", 0)
        assert partition is not None
        it = Replicated(broker, partition)
        brokers = broker.image.brokers
        brokers |= {number: broker_image(number, epoch) for number, epoch in EPOCHS.items()}
        context = broker.partitions.leader_context
        context.brokers = brokers
        context.own_epoch = 10
        context.propose = lambda *pair: it.proposals.append(pair)
        it.lead(replicas=(LEADER, FOLLOWER, OTHER), in_sync=in_sync, leader_epoch=5)
        yield it
