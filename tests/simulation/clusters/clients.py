"""Small producers and readers of a simulated cluster, which record a history.

They send single requests and never hide an error, so that a run is cheap and its history exact.
"""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from pykbroker.address import Address
from pykbroker.client.cluster_client import ClusterClient
from pykbroker.client.connection_options import ConnectionOptions
from pykbroker.client.errors import ApiError, ClientError, error_of, raise_if_error
from pykbroker.testing.history import History, Record
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from pykbroker_protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from pykbroker_protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from pykbroker_protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from pykbroker_protocol.records.batch import iterate_batches
from pykbroker_protocol.records.builder import BatchBuilder

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

    from pykbroker.clock import Clock
    from pykbroker.testing.history import Client
    from pykbroker.testing.simulation import SimulatedNode
    from pykbroker_protocol.messages.fetch import PartitionData

TOPIC = "orders"
LATEST = -1
TIMEOUT_SECONDS = 2.0
PRODUCE_BY_NAME = 12
FETCH_BY_NAME = 12
LEADER_CHANGED = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
    }
)


class Leader(NamedTuple):
    node_id: int
    epoch: int


@dataclass
class ClusterClients:
    """What the clients of a run share."""

    nodes: Sequence[SimulatedNode]
    chance: random.Random
    clock: Clock
    partitions: int
    pause_seconds: float
    """Longest time between two records of a producer."""
    read_seconds: float
    """Longest time between two reads of all partitions."""
    history: History = field(default_factory=History)
    names: itertools.count[int] = field(default_factory=itertools.count)
    acknowledged: int = 0

    def connect(self) -> PartitionClient:
        hosts = [it.bootstrap.rsplit(":", 1) for it in self.nodes]
        self.chance.shuffle(hosts)
        options = ConnectionOptions(timeout_seconds=TIMEOUT_SECONDS, clock=self.clock)
        addresses = [Address(host=host, port=int(port)) for host, port in hosts]
        return PartitionClient(ClusterClient(addresses, options))

    def recorded(self, kind: str) -> Client:
        return self.history.client(f"{kind}-{next(self.names)}")


class PartitionClient:
    """Sends requests to the leaders of partitions. A leader of an old epoch is never used again."""

    def __init__(self, cluster: ClusterClient) -> None:
        self.cluster = cluster
        self._leaders: dict[int, Leader] = {}
        self._stale: set[int] = set()

    async def leader(self, partition: int) -> Leader | None:
        """Returns the known leader, or requests metadata; None if there is no leader now."""
        known = self._leaders.get(partition)
        if known is not None and partition not in self._stale:
            return known
        response = await self.cluster.metadata([TOPIC])
        for row in response.topics[0].partitions:
            found = Leader(row.leader_id, row.leader_epoch)
            before = self._leaders.get(row.partition_index)
            if before is None or found.epoch >= before.epoch:
                self._leaders[row.partition_index] = found
                self._stale.discard(row.partition_index)
        found_leader = self._leaders.get(partition)
        if found_leader is None or found_leader.node_id < 0:
            self._stale.add(partition)
            return None
        return found_leader

    async def existing_leader(self, partition: int) -> Leader:
        leader = await self.leader(partition)
        if leader is None:
            raise ApiError(ErrorCode.LEADER_NOT_AVAILABLE)
        return leader

    def forget(self, partition: int) -> None:
        self._stale.add(partition)

    async def produce(self, partition: int, leader: Leader, records: bytes, acks: int) -> Any:
        """Returns the row of the response."""
        request = ProduceRequest(
            acks=acks,
            timeout_ms=int(TIMEOUT_SECONDS * 900),
            topic_data=[
                TopicProduceData(
                    name=TOPIC,
                    partition_data=[PartitionProduceData(index=partition, records=records)],
                )
            ],
        )
        response = await self.cluster.request(
            request, ProduceResponse, node_id=leader.node_id, version_max=PRODUCE_BY_NAME
        )
        return response.responses[0].partition_responses[0]

    async def latest(self, partition: int, leader: Leader) -> tuple[ErrorCode, int]:
        request = ListOffsetsRequest(
            replica_id=-1,
            topics=[
                ListOffsetsTopic(
                    name=TOPIC,
                    partitions=[
                        ListOffsetsPartition(
                            partition_index=partition,
                            current_leader_epoch=leader.epoch,
                            timestamp=LATEST,
                        )
                    ],
                )
            ],
        )
        response = await self.cluster.request(request, ListOffsetsResponse, node_id=leader.node_id)
        (row,) = response.topics[0].partitions
        return error_of(row.error_code), row.offset

    async def fetch(
        self, partition: int, leader: Leader, offset: int, *, wait_ms: int = 500
    ) -> PartitionData:
        request = FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=1,
            topics=[
                FetchTopic(
                    topic=TOPIC,
                    partitions=[
                        FetchPartition(
                            partition=partition,
                            current_leader_epoch=leader.epoch,
                            fetch_offset=offset,
                            partition_max_bytes=1 << 20,
                        )
                    ],
                )
            ],
        )
        response = await self.cluster.request(
            request, FetchResponse, node_id=leader.node_id, version_max=FETCH_BY_NAME
        )
        return response.responses[0].partitions[0]

    async def close(self) -> None:
        await self.cluster.close()


# --- producers


async def write(clients: ClusterClients, count: int, *, acks: int = -1) -> None:
    """Sends records without retries, so a record is stored at most once."""
    recorded, client = clients.recorded("plain"), clients.connect()
    for number in range(count):
        partition = clients.chance.randrange(clients.partitions)
        value = f"{recorded.name}/{number}"
        records = batch_of(value, clients.clock.now_ms())
        sending = recorded.sending(TOPIC, value, partition=partition) if acks else None
        try:
            leader = await client.existing_leader(partition)
            row = await client.produce(partition, leader, records, acks)
            raise_if_error(row.error_code)
        except ClientError as error:
            client.forget(partition)
            if sending is not None:
                sending.unanswered(error)
            await asyncio.sleep(clients.chance.uniform(0.1, 1))
        else:
            if sending is not None and acks == -1:
                sending.sent(partition=partition, offset=row.base_offset)
                clients.acknowledged += 1
            elif sending is not None:
                sending.unanswered(ClientError("acknowledged by the leader only"))
            await asyncio.sleep(clients.chance.uniform(0, clients.pause_seconds))
    await client.close()


async def write_idempotent(clients: ClusterClients, count: int) -> None:
    """Retries each record until it is acknowledged, with the same sequence number."""
    client = clients.connect()
    left = count
    while left:
        recorded = clients.recorded("idempotent")
        try:
            made = await client.cluster.request(
                InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000),
                InitProducerIdResponse,
            )
        except ClientError:
            await asyncio.sleep(clients.chance.uniform(0.1, 1))
            continue
        if made.error_code:
            await asyncio.sleep(clients.chance.uniform(0.1, 1))
            continue
        sequences = dict.fromkeys(range(clients.partitions), 0)
        while left:
            partition = clients.chance.randrange(clients.partitions)
            value = f"{recorded.name}/{left}"
            left -= 1
            sending = recorded.sending(TOPIC, value, partition=partition)
            builder = BatchBuilder(
                producer_id=made.producer_id,
                producer_epoch=made.producer_epoch,
                base_sequence=sequences[partition],
            )
            builder.append(clients.clock.now_ms(), None, value.encode())
            sequences[partition] += 1
            offset = await deliver(clients, client, partition, builder.build())
            if offset is None:
                sending.unanswered(ClientError("the producer id is not valid any more"))
                break
            sending.sent(partition=partition, offset=offset)
            clients.acknowledged += 1
            await asyncio.sleep(clients.chance.uniform(0, clients.pause_seconds))
    await client.close()


async def deliver(
    clients: ClusterClients, client: PartitionClient, partition: int, records: bytes
) -> int | None:
    """Returns the offset; None if the broker rejects the producer, and -1 for a known duplicate."""
    while True:
        try:
            leader = await client.leader(partition)
            if leader is not None:
                row = await client.produce(partition, leader, records, -1)
                code = error_of(row.error_code)
                if code is ErrorCode.NONE:
                    offset: int = row.base_offset
                    return offset
                if not code.retriable:
                    return None
        except ClientError:
            pass
        client.forget(partition)
        await asyncio.sleep(clients.chance.uniform(0.1, 1))


def batch_of(value: str, now_ms: int) -> bytes:
    builder = BatchBuilder()
    builder.append(now_ms, None, value.encode())
    return builder.build()


# --- readers


class Seen:
    """The highest offset that readers have seen, by partition."""

    def __init__(self) -> None:
        self.latest: dict[int, int] = {}
        self.violations: list[str] = []

    def note(self, partition: int, offset: int, before: int, leader: Leader) -> None:
        """`before` was known when the request was sent."""
        if offset < before:
            self.violations.append(
                f"{TOPIC}-{partition}: LATEST went back from {before} to {offset} at {leader}"
            )
        self.latest[partition] = max(self.latest.get(partition, 0), offset)

    def note_range(self, partition: int, offset: int, code: ErrorCode, leader: Leader) -> None:
        """A reader that continues at an offset that it has seen is never out of range."""
        if code is ErrorCode.OFFSET_OUT_OF_RANGE:
            self.violations.append(f"{TOPIC}-{partition}: {offset} is out of range at {leader}")


async def watch(clients: ClusterClients, seen: Seen) -> None:
    """Reads all partitions from the start on, and their latest offsets, until it is cancelled."""
    recorded, client = clients.recorded("reader"), clients.connect()
    positions = dict.fromkeys(range(clients.partitions), 0)
    recorded.assigned(*((TOPIC, it, 0) for it in positions))
    while True:
        for partition in positions:
            try:
                leader = await client.existing_leader(partition)
                await check_latest(client, seen, partition, leader)
                await read_next(client, seen, recorded, positions, (partition, leader))
            except ClientError:
                client.forget(partition)
        await asyncio.sleep(clients.chance.uniform(0, clients.read_seconds))


async def check_latest(client: PartitionClient, seen: Seen, partition: int, leader: Leader) -> None:
    """Notes a latest offset that goes back, or that a reader cannot continue at."""
    before = seen.latest.get(partition, 0)
    code, offset = await client.latest(partition, leader)
    if code is ErrorCode.NONE:
        seen.note(partition, offset, before, leader)
    elif code in LEADER_CHANGED:
        raise ApiError(code)
    start = seen.latest.get(partition, 0)
    data = await client.fetch(partition, leader, start, wait_ms=0)
    seen.note_range(partition, start, error_of(data.error_code), leader)


async def read_next(
    client: PartitionClient,
    seen: Seen,
    recorded: Client,
    positions: dict[int, int],
    at: tuple[int, Leader],
) -> None:
    """Reads records from the position on."""
    partition, leader = at
    position = positions[partition]
    data = await client.fetch(partition, leader, position, wait_ms=0)
    code = error_of(data.error_code)
    seen.note_range(partition, position, code, leader)
    raise_if_error(code)
    records = records_in(partition, data, position)
    recorded.polled(records)
    if records:
        positions[partition] = records[-1].offset + 1


def records_in(partition: int, data: PartitionData, position: int) -> list[Record]:
    return [
        Record(TOPIC, partition, record.offset, bytes(record.value or b"").decode())
        for batch in iterate_batches(bytes(data.records or b""))
        for record in batch.records()
        if record.offset >= position
    ]


async def read_all(clients: ClusterClients) -> None:
    """Reads every partition from the start to its latest offset."""
    recorded, client = clients.recorded("auditor"), clients.connect()
    recorded.assigned(*((TOPIC, it, 0) for it in range(clients.partitions)))
    for partition in range(clients.partitions):
        position, end = 0, -1
        while end < 0 or position < end:
            try:
                leader = await client.existing_leader(partition)
                if end < 0:
                    code, end = await client.latest(partition, leader)
                    raise_if_error(code)
                data = await client.fetch(partition, leader, position)
                raise_if_error(data.error_code)
            except ClientError:
                client.forget(partition)
                await asyncio.sleep(0.2)
                continue
            records = records_in(partition, data, position)
            recorded.polled(records)
            position = records[-1].offset + 1 if records else position
    await client.close()
