"""Writes records to one topic: one batch in flight per partition, with retries."""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from typing import TYPE_CHECKING, Final, TypeAlias

from pykbroker.client.cluster_client import no_such_partition
from pykbroker.client.errors import (
    ApiError,
    ClientError,
    ConnectionFailed,
    InvalidResponse,
    error_of,
    only,
)
from pykbroker.client.retries import Recovery, recovery_from
from pykbroker_protocol.api_keys import ApiKey
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.late_dataclass import dataclass
from pykbroker_protocol.message import ZERO_UUID
from pykbroker_protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from pykbroker_protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from pykbroker_protocol.partitioner import partition_of_key
from pykbroker_protocol.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE
from pykbroker_protocol.records.builder import BatchBuilder

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pykbroker.client.cluster_client import ClusterClient
    from pykbroker_protocol.messages.metadata import MetadataResponseTopic
    from pykbroker_protocol.messages.produce import PartitionProduceResponse
    from pykbroker_protocol.records.compression import Compression

ACKS_NONE: Final = 0
ACKS_ALL: Final = -1
LAST_VERSION_BY_NAME: Final = 12
SEQUENCES: Final = 2**31
RECORD_OVERHEAD_BYTES: Final = 32
UNKNOWN_OFFSET: Final = -1

Headers: TypeAlias = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRecord:
    """A record to write. If partition or timestamp is None, the producer chooses it."""

    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    partition: int | None = None
    timestamp: int | None = None


@dataclass(slots=True, kw_only=True)
class Written:
    """Records written to one partition; offsets are -1 with acks=0, and for duplicate batches."""

    records: int = 0
    first_offset: int = UNKNOWN_OFFSET
    last_offset: int = UNKNOWN_OFFSET


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    data: bytes
    record_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """Batching and acknowledgement of a producer."""

    acks: int
    compression: Compression
    batch_bytes: int
    is_idempotent: bool


class Producer:
    """Keeps the order of records in a partition: the next batch is sent after the response."""

    def __init__(
        self, client: ClusterClient, topic: MetadataResponseTopic, delivery: Delivery
    ) -> None:
        self.written: dict[int, Written] = defaultdict(Written)
        self._client = client
        self._delivery = delivery
        self._topic = topic
        self._producer_id = NO_PRODUCER_ID
        self._producer_epoch = NO_PRODUCER_EPOCH
        self._next_sequence: dict[int, int] = defaultdict(int)
        self._waiting: dict[int, deque[Batch]] = defaultdict(deque)
        self._unkeyed_partition = client.options.randomness.below(max(1, len(topic.partitions)))

    @classmethod
    async def open(cls, client: ClusterClient, topic_name: str, delivery: Delivery) -> Producer:
        """Looks the topic up, which may create it, and gets a producer id if needed."""
        topic = await client.topic(topic_name, may_create=True)
        producer = cls(client, topic, delivery)
        broker = await client.broker()
        if delivery.is_idempotent and broker.offers(ApiKey.INIT_PRODUCER_ID):
            await producer._init_producer_id()
        return producer

    async def write(self, records: Iterable[NewRecord]) -> None:
        """Returns when all records are acknowledged as `acks` requires."""
        now_ms = self._client.options.clock.now_ms()
        for partition, group in self._by_partition(records).items():
            self._waiting[partition].extend(self._batches(partition, group, now_ms))
        await self._deliver()

    async def flush(self) -> None:
        """With acks=0, returns when the brokers have read all requests."""
        if self._delivery.acks == ACKS_NONE:
            await self._client.flush()

    async def _init_producer_id(self) -> None:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        attempts = self._client.attempts(self._client.options.timeout_seconds)
        while True:
            response = await self._client.request(request, InitProducerIdResponse)
            error = error_of(response.error_code)
            if error is ErrorCode.NONE:
                break
            if recovery_from(error) is Recovery.NONE or not await attempts.pause():
                raise ApiError(error)
        self._producer_id, self._producer_epoch = response.producer_id, response.producer_epoch

    def _by_partition(self, records: Iterable[NewRecord]) -> dict[int, list[NewRecord]]:
        count = len(self._topic.partitions)
        groups: dict[int, list[NewRecord]] = defaultdict(list)
        for record in records:
            if record.partition is not None:
                if not 0 <= record.partition < count:
                    raise no_such_partition(record.partition, count)
                groups[record.partition].append(record)
            elif record.key is not None:
                groups[partition_of_key(record.key, count)].append(record)
            else:
                groups[self._unkeyed_partition].append(record)
        self._unkeyed_partition = (self._unkeyed_partition + 1) % count
        return groups

    def _batches(self, partition: int, records: list[NewRecord], now_ms: int) -> Iterable[Batch]:
        builder = self._builder(partition)
        for record in records:
            size = len(record.key or b"") + len(record.value or b"") + RECORD_OVERHEAD_BYTES
            if builder.record_count and builder.payload_bytes + size > self._delivery.batch_bytes:
                yield self._finished(partition, builder)
                builder = self._builder(partition)
            timestamp = now_ms if record.timestamp is None else record.timestamp
            builder.append(timestamp, record.key, record.value, record.headers)
        yield self._finished(partition, builder)

    def _builder(self, partition: int) -> BatchBuilder:
        is_idempotent = self._producer_id != NO_PRODUCER_ID
        return BatchBuilder(
            compression=self._delivery.compression,
            producer_id=self._producer_id,
            producer_epoch=self._producer_epoch,
            base_sequence=self._next_sequence[partition] if is_idempotent else NO_SEQUENCE,
        )

    def _finished(self, partition: int, builder: BatchBuilder) -> Batch:
        sequence = self._next_sequence[partition] + builder.record_count
        self._next_sequence[partition] = sequence % SEQUENCES
        return Batch(data=builder.build(), record_count=builder.record_count)

    async def _deliver(self) -> None:
        """Sends all batches; the deadline starts again after each round without a failure."""
        attempts = self._client.attempts(self._client.options.timeout_seconds)
        while any(self._waiting.values()):
            failure = await self._deliver_round()
            if failure is None:
                attempts.restart()
            elif await attempts.pause():
                self._topic = await self._client.topic(self._topic.name or "")
            else:
                raise failure

    async def _deliver_round(self) -> ClientError | None:
        """Sends the next batch of each partition; returns a failure that can be retried."""
        leaders = {it.partition_index: it.leader_id for it in self._topic.partitions}
        by_leader = defaultdict(list)
        for partition in sorted(it for it, batches in self._waiting.items() if batches):
            if partition not in leaders:  # the topic was recreated with fewer partitions
                raise no_such_partition(partition, len(leaders))
            by_leader[leaders[partition]].append(partition)
        failures = await asyncio.gather(
            *(self._send(leader, partitions) for leader, partitions in by_leader.items())
        )
        return next((failure for failure in failures if failure is not None), None)

    async def _send(self, leader: int, partitions: list[int]) -> ClientError | None:
        if leader < 0:
            return ApiError(ErrorCode.LEADER_NOT_AVAILABLE)
        request = self._request(partitions)
        version_max = LAST_VERSION_BY_NAME if self._topic.topic_id == ZERO_UUID else None
        try:
            if self._delivery.acks == ACKS_NONE:
                await self._client.send(request, node_id=leader, version_max=version_max)
                for partition in partitions:
                    self._complete(partition, UNKNOWN_OFFSET)
                return None
            response = await self._client.request(
                request, ProduceResponse, node_id=leader, version_max=version_max
            )
        except ConnectionFailed as failure:
            return failure
        answered = only(response.responses, "topics").partition_responses
        if sorted(it.index for it in answered) != partitions:
            raise InvalidResponse("response to Produce has other partitions than the request")
        failures = [self._check(it) for it in answered]
        return next((failure for failure in failures if failure is not None), None)

    def _request(self, partitions: list[int]) -> ProduceRequest:
        data = [
            PartitionProduceData(index=it, records=self._waiting[it][0].data) for it in partitions
        ]
        topic = TopicProduceData(
            name=self._topic.name or "", topic_id=self._topic.topic_id, partition_data=data
        )
        return ProduceRequest(
            acks=self._delivery.acks, timeout_ms=self._client.timeout_ms, topic_data=[topic]
        )

    def _check(self, response: PartitionProduceResponse) -> ApiError | None:
        """Completes the batch, returns an error that can be retried or raises one that cannot."""
        error = error_of(response.error_code)
        if error in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            self._complete(response.index, response.base_offset)
            return None
        failure = ApiError(error, response.error_message)
        if recovery_from(error) is Recovery.NONE:
            raise failure
        return failure

    def _complete(self, partition: int, base_offset: int) -> None:
        batch = self._waiting[partition].popleft()
        written = self.written[partition]
        if base_offset >= 0:
            if written.first_offset == UNKNOWN_OFFSET:
                written.first_offset = base_offset
            written.last_offset = base_offset + batch.record_count - 1
        written.records += batch.record_count
