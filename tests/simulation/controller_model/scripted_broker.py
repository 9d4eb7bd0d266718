"""A broker without logs: sends the requests of a broker and reads the metadata."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.address import Address
from pykbroker.client.broker_connection import BrokerConnection
from pykbroker.generators import run_to_end
from pykbroker.metadata.batches import records_of
from pykbroker.metadata.image import ClusterImage
from pykbroker.metadata.replay import replay
from pykbroker.testing.simulation.controller_model.partition_changes import ELIGIBLE_LEADER_REPLICAS
from pykbroker_protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    PartitionData,
    TopicData,
)
from pykbroker_protocol.messages.broker_heartbeat import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
)
from pykbroker_protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    Feature,
    Listener,
)
from pykbroker_protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ReplicaState,
)
from pykbroker_protocol.records.batch import iterate_batches

if TYPE_CHECKING:
    from pykbroker.testing.simulation.controller_model import RunningController
    from pykbroker_protocol.messages.alter_partition import PartitionResult
    from pykbroker_protocol.messages.fetch import PartitionData as Fetched

METADATA = (1).to_bytes(16, "big")
FEATURES = {
    "metadata.version": (7, 30),
    "group.version": (0, 1),
    "transaction.version": (0, 2),
    ELIGIBLE_LEADER_REPLICAS: (0, 1),
}


class ScriptedBroker:
    def __init__(self, controller: RunningController, node_id: int) -> None:
        self.node_id = node_id
        self.epoch = -1
        self.starts = 0
        self.image = ClusterImage(cluster_id=controller.model.cluster_id)
        self.controller_epoch = 0
        self.metadata_offset = 0
        self._controller = controller

    async def connect(self, number: int = 0) -> None:
        host, port = self._controller.addresses[number].rsplit(":", 1)
        self.connection = await BrokerConnection.open(Address(host=host, port=int(port)))

    async def register(self, *, previous_epoch: int = -1, is_same: bool = False) -> int:
        """Registers a new incarnation and returns the error code."""
        self.starts += not is_same
        response = await self.connection.request(
            BrokerRegistrationRequest(
                broker_id=self.node_id,
                cluster_id=self._controller.model.cluster_id,
                incarnation_id=bytes([self.node_id, self.starts]).ljust(16, b"i"),
                listeners=[Listener(name="PLAINTEXT", host="h", port=9092, security_protocol=0)],
                features=[
                    Feature(name=name, min_supported_version=low, max_supported_version=high)
                    for name, (low, high) in FEATURES.items()
                ],
                rack=None,
                log_dirs=[bytes([self.node_id]).rjust(16, b"d")],
                previous_broker_epoch=previous_epoch,
            ),
            BrokerRegistrationResponse,
        )
        if not response.error_code:
            self.epoch = response.broker_epoch
        return response.error_code

    async def heartbeat(
        self, offset: int = 2**31, *, requests_fence: bool = False, requests_shutdown: bool = False
    ) -> BrokerHeartbeatResponse:
        return await self.connection.request(
            BrokerHeartbeatRequest(
                broker_id=self.node_id,
                broker_epoch=self.epoch,
                current_metadata_offset=offset,
                want_fence=requests_fence,
                want_shut_down=requests_shutdown,
            ),
            BrokerHeartbeatResponse,
        )

    async def start(self, *, previous_epoch: int = -1) -> None:
        """Connects, registers and unfences."""
        await self.connect()
        assert await self.register(previous_epoch=previous_epoch) == 0
        assert not (await self.heartbeat()).is_fenced

    async def fetch(
        self, offset: int, *, epoch: int = -1, last_epoch: int = 0, wait_ms: int = 0
    ) -> Fetched:
        response = await self.connection.request(
            FetchRequest(
                cluster_id=self._controller.model.cluster_id,
                replica_state=ReplicaState(replica_id=self.node_id),
                max_wait_ms=wait_ms,
                min_bytes=1,
                topics=[
                    FetchTopic(
                        topic_id=METADATA,
                        partitions=[
                            FetchPartition(
                                partition=0,
                                current_leader_epoch=epoch,
                                fetch_offset=offset,
                                last_fetched_epoch=last_epoch,
                                partition_max_bytes=1 << 20,
                                high_watermark=2**62,
                            )
                        ],
                    )
                ],
            ),
            FetchResponse,
        )
        assert response.error_code == 0
        return response.responses[0].partitions[0]

    async def follow(self) -> ClusterImage:
        """Fetches the metadata log from the start and returns the committed image."""
        fetched = await self.fetch(0)
        self.image = ClusterImage(cluster_id=self._controller.model.cluster_id)
        records = [
            record
            for batch in iterate_batches(fetched.records or b"")
            if batch.base_offset < fetched.high_watermark
            for record in records_of(batch)
        ]
        last_offset = fetched.high_watermark - 1
        self.image.apply(run_to_end(replay(self.image, records, last_offset=last_offset)))
        return self.image

    async def propose(
        self,
        topic: str,
        in_sync: dict[int, int],
        *,
        leader_epoch: int | None = None,
        partition_epoch: int | None = None,
        broker_epoch: int | None = None,
    ) -> PartitionResult | int:
        """Sends AlterPartition for partition 0 with broker ids and epochs."""
        known = self._controller.model.image.topics[topic]
        partition = known.partitions[0]
        response = await self.connection.request(
            AlterPartitionRequest(
                broker_id=self.node_id,
                broker_epoch=self.epoch if broker_epoch is None else broker_epoch,
                topics=[
                    TopicData(
                        topic_id=known.id,
                        partitions=[
                            PartitionData(
                                partition_index=0,
                                leader_epoch=(
                                    partition.leader_epoch if leader_epoch is None else leader_epoch
                                ),
                                new_isr_with_epochs=[
                                    BrokerState(broker_id=it, broker_epoch=epoch)
                                    for it, epoch in in_sync.items()
                                ],
                                partition_epoch=(
                                    partition.partition_epoch
                                    if partition_epoch is None
                                    else partition_epoch
                                ),
                            )
                        ],
                    )
                ],
            ),
            AlterPartitionResponse,
        )
        return response.error_code or response.topics[0].partitions[0]

    async def close(self) -> None:
        await self.connection.close()
