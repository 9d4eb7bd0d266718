"""Writes records to one topic: batches by partition, requests by leader, again if need be."""

from __future__ import annotations

import asyncio
import random
import time
from collections import defaultdict, deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pykbroker.cli.client import Disconnected
from pykbroker.cli.failure import CommandFailed, Refused
from pykbroker.cli.refusals import error_of
from pykbroker.cli.topic_lookup import BACKOFF_S, find_topic, no_partition
from pykbroker_protocol.api_keys import ApiKey
from pykbroker_protocol.errors import ErrorCode
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

    from pykbroker.cli.client import Client
    from pykbroker.cli.record_lines import NewRecord
    from pykbroker_protocol.messages.metadata import MetadataResponseTopic
    from pykbroker_protocol.messages.produce import PartitionProduceResponse
    from pykbroker_protocol.records.compression import Compression

ACKS_NONE: Final = 0
ACKS_ALL: Final = -1
LAST_VERSION_BY_NAME: Final = 12
SEQUENCES: Final = 2**31
RECORD_OVERHEAD_BYTES: Final = 32
NOT_WRITTEN: Final = -1


@dataclass(slots=True, kw_only=True)
class Written:
    """What became of the records of one partition; offsets are -1 where nobody told them."""

    records: int = 0
    first_offset: int = NOT_WRITTEN
    last_offset: int = NOT_WRITTEN


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    data: bytes
    record_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    acks: int
    compression: Compression
    batch_bytes: int
    is_idempotent: bool


class Producer:
    """Sends one batch per partition at a time, so that records keep their order."""

    def __init__(self, client: Client, topic: MetadataResponseTopic, delivery: Delivery) -> None:
        self.written: dict[int, Written] = defaultdict(Written)
        self._client = client
        self._delivery = delivery
        self._topic = topic
        self._producer_id = NO_PRODUCER_ID
        self._producer_epoch = NO_PRODUCER_EPOCH
        self._next_sequence: dict[int, int] = defaultdict(int)
        self._waiting: dict[int, deque[Batch]] = defaultdict(deque)
        self._unkeyed = random.randrange(len(topic.partitions))  # noqa: S311  # load, not secrets

    @classmethod
    async def open(cls, client: Client, topic_name: str, delivery: Delivery) -> Producer:
        topic = await find_topic(client, topic_name, may_create=True)
        producer = cls(client, topic, delivery)
        if delivery.is_idempotent and client.bootstrap.offers_api(ApiKey.INIT_PRODUCER_ID):
            await producer._get_producer_id()
        return producer

    async def write(self, records: Iterable[NewRecord]) -> None:
        """Return when every record is where `acks` wants it."""
        now_ms = time.time_ns() // 1_000_000
        for partition, group in self._by_partition(records).items():
            self._waiting[partition].extend(self._batches(partition, group, now_ms))
        await self._deliver()

    async def finish(self) -> None:
        """Return when nothing is on its way that nobody would answer."""
        if self._delivery.acks == ACKS_NONE:
            await self._client.settle()

    async def _get_producer_id(self) -> None:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        deadline = time.monotonic() + self._client.timeout_ms / 1000
        while True:
            answer = await self._client.ask(request, InitProducerIdResponse)
            error = error_of(answer.error_code)
            if error is ErrorCode.NONE:
                break
            if not error.retriable or time.monotonic() > deadline:
                raise Refused(error)
            await asyncio.sleep(BACKOFF_S)
        self._producer_id, self._producer_epoch = answer.producer_id, answer.producer_epoch

    def _by_partition(self, records: Iterable[NewRecord]) -> dict[int, list[NewRecord]]:
        count = len(self._topic.partitions)
        groups: dict[int, list[NewRecord]] = defaultdict(list)
        for record in records:
            if record.partition is not None:
                if not 0 <= record.partition < count:
                    raise no_partition(record.partition, count)
                groups[record.partition].append(record)
            elif record.key is not None:
                groups[partition_of_key(record.key, count)].append(record)
            else:
                groups[self._unkeyed].append(record)
        self._unkeyed = (self._unkeyed + 1) % count
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
        deadline = time.monotonic() + self._client.timeout_ms / 1000
        while any(self._waiting.values()):
            trouble = await self._deliver_round()
            if trouble is None:
                deadline = time.monotonic() + self._client.timeout_ms / 1000
                continue
            if time.monotonic() > deadline:
                raise trouble
            await asyncio.sleep(BACKOFF_S)
            self._topic = await find_topic(self._client, self._topic.name or "")

    async def _deliver_round(self) -> CommandFailed | None:
        """Send the next batch of every partition; what can be tried again comes back."""
        leaders = {it.partition_index: it.leader_id for it in self._topic.partitions}
        by_leader = defaultdict(list)
        for partition in sorted(it for it, batches in self._waiting.items() if batches):
            if partition not in leaders:  # somebody made the topic anew, with fewer of them
                raise no_partition(partition, len(leaders))
            by_leader[leaders[partition]].append(partition)
        troubles = await asyncio.gather(
            *(self._send(leader, partitions) for leader, partitions in by_leader.items())
        )
        return next((trouble for trouble in troubles if trouble is not None), None)

    async def _send(self, leader: int, partitions: list[int]) -> CommandFailed | None:
        if leader < 0:
            return Refused(ErrorCode.LEADER_NOT_AVAILABLE)
        request = self._request(partitions)
        version_max = LAST_VERSION_BY_NAME if self._topic.topic_id == ZERO_UUID else None
        try:
            if self._delivery.acks == ACKS_NONE:
                await self._client.tell(request, node_id=leader, version_max=version_max)
                for partition in partitions:
                    self._settle(partition, NOT_WRITTEN)
                return None
            response = await self._client.ask(
                request, ProduceResponse, node_id=leader, version_max=version_max
            )
        except Disconnected as failure:
            return failure
        answers = [self._judge(it) for it in response.responses[0].partition_responses]
        return next((trouble for trouble in answers if trouble is not None), None)

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

    def _judge(self, answer: PartitionProduceResponse) -> Refused | None:
        error = error_of(answer.error_code)
        if error in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            self._settle(answer.index, answer.base_offset)
            return None
        refused = Refused(error, answer.error_message)
        if not error.retriable or error is ErrorCode.CORRUPT_MESSAGE:
            raise refused
        return refused

    def _settle(self, partition: int, base_offset: int) -> None:
        batch = self._waiting[partition].popleft()
        written = self.written[partition]
        if base_offset >= 0:
            if written.first_offset == NOT_WRITTEN:
                written.first_offset = base_offset
            written.last_offset = base_offset + batch.record_count - 1
        written.records += batch.record_count
