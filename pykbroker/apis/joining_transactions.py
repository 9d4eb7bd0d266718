"""Adds partitions to a transaction before its first batch is appended to them (KIP-890).

Producers with transaction version 2 add partitions implicitly. Older producers have sent
AddPartitionsToTxn, which is verified with the coordinator. If the transaction is already open in
the log of the partition, the coordinator is not involved.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from pykbroker.coordination.transactions.outcome import TopicPartition
from pykbroker.partitions.admission import MAGIC, MAGIC_POSITION
from pykbroker_protocol.errors import ErrorCode, Refusal
from pykbroker_protocol.records.batch import (
    CHECKED_FROM,
    HEADER_BYTES,
    TRANSACTIONAL_FLAG,
    producer_of,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterator, Mapping, Sequence

    from pykbroker.apis.node import Call
    from pykbroker.partitions.joining import Joining
    from pykbroker.partitions.partition import Partition
    from pykbroker_protocol.compiler import Buffer
    from pykbroker_protocol.messages.produce import ProduceRequest

    Verdicts = Mapping[TopicPartition, ErrorCode]
    Refusals = Mapping[tuple[str, int], Refusal]

TOPIC_IDS_SINCE_VERSION = 13
ADDED_SINCE_VERSION = 12
ABORTABLE_SINCE_VERSION = 11
LOW_ATTRIBUTES_AT = CHECKED_FROM + 1

NO_REFUSALS: Refusals = {}


class Producer(NamedTuple):
    id: int
    epoch: int


class NewPartition(NamedTuple):
    """A partition that has no open transaction of this producer yet."""

    partition: Partition
    joining: Joining


def holds_transactional(request: ProduceRequest) -> bool:
    """Returns whether the attributes of any batch have the transactional flag."""
    for topic in request.topic_data:
        for partition in topic.partition_data:
            records = partition.records
            if (
                records is not None
                and len(records) > LOW_ATTRIBUTES_AT
                and records[LOW_ATTRIBUTES_AT] & TRANSACTIONAL_FLAG
            ):
                return True
    return False


def join_transaction(
    request: ProduceRequest, call: Call
) -> Refusals | Awaitable[Refusals] | ErrorCode:
    """Returns the errors of partitions, an awaitable of them, or an error for all partitions."""
    batches = list(transactional_batches(request, call))
    producers = {Producer(producer_id, epoch) for _, (producer_id, epoch, _) in batches}
    if len(producers) > 1:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    new_partitions = [
        NewPartition(partition, begin_joining(partition, *batch, call=call))
        for partition, batch in batches
        if not partition.log.producers.is_in_transaction(*batch[:2])
    ]
    if not new_partitions:
        return NO_REFUSALS
    assert request.transactional_id is not None, "checked by the caller"
    join_request = JoinRequest(request.transactional_id, producers.pop(), new_partitions, call)
    verdicts = join_request.send()
    if isinstance(verdicts, asyncio.Future) or join_request.should_retry(verdicts):
        return join_request.until_settled(verdicts)
    return join_request.settle(verdicts)


def transactional_batches(
    request: ProduceRequest, call: Call
) -> Iterator[tuple[Partition, tuple[int, int, int]]]:
    """Yields valid batches to partitions led by this node; the append rejects the others."""
    partitions = call.node.partitions
    for topic in request.topic_data:
        name: str | None = topic.name
        if call.version >= TOPIC_IDS_SINCE_VERSION:
            name = partitions.topic_name(topic.topic_id)
        for data in topic.partition_data:
            partition = partitions.get(name or "", data.index)
            records = data.records
            if (
                partition is not None
                and partition.leads
                and records is not None
                and is_batch_of_producer(records)
            ):
                yield partition, producer_of(records)


def is_batch_of_producer(records: Buffer) -> bool:
    return (
        len(records) >= HEADER_BYTES
        and records[MAGIC_POSITION] == MAGIC
        and records[LOW_ATTRIBUTES_AT] & TRANSACTIONAL_FLAG != 0
        and producer_of(records)[0] >= 0
    )


def begin_joining(
    partition: Partition, producer_id: int, producer_epoch: int, base_sequence: int, *, call: Call
) -> Joining:
    return partition.leader.joining.ask(
        producer_id,
        producer_epoch,
        base_sequence,
        begins_at_zero=call.version >= ADDED_SINCE_VERSION,
        now_ms=call.node.clock.now_ms(),
    )


class JoinRequest:
    """A request to the transaction coordinator for the new partitions of one producer."""

    __slots__ = ("call", "new_partitions", "producer", "transactional_id")

    def __init__(
        self,
        transactional_id: str,
        producer: Producer,
        new_partitions: Sequence[NewPartition],
        call: Call,
    ) -> None:
        self.transactional_id = transactional_id
        self.producer = producer
        self.new_partitions = new_partitions
        self.call = call

    def send(self) -> Verdicts | asyncio.Future[Verdicts]:
        return self.call.node.transactions.join(
            self.transactional_id,
            self.producer.id,
            self.producer.epoch,
            [TopicPartition(it.partition.topic, it.partition.index) for it in self.new_partitions],
            verify_only=self.call.version < ADDED_SINCE_VERSION,
        )

    def should_retry(self, verdicts: Verdicts) -> bool:
        """Returns whether to retry: the previous transaction is ending, which is fast."""
        return (
            self.call.version >= ADDED_SINCE_VERSION
            and ErrorCode.CONCURRENT_TRANSACTIONS in verdicts.values()
        )

    async def until_settled(self, verdicts: Verdicts | asyncio.Future[Verdicts]) -> Refusals:
        node = self.call.node
        pause_ms = node.settings.add_partitions_to_txn_retry_backoff_ms
        deadline = (
            node.clock.monotonic() + node.settings.add_partitions_to_txn_retry_backoff_max_ms / 1000
        )
        while True:
            answer = await verdicts if isinstance(verdicts, asyncio.Future) else verdicts
            if not self.should_retry(answer) or node.clock.monotonic() >= deadline:
                return self.settle(answer)
            await node.clock.sleep(pause_ms / 1000)
            verdicts = self.send()

    def settle(self, verdicts: Verdicts) -> Refusals:
        refusals: dict[tuple[str, int], Refusal] = {}
        for partition, joining in self.new_partitions:
            topic_partition = TopicPartition(partition.topic, partition.index)
            code = verdicts[topic_partition]
            has_joined = code is ErrorCode.NONE
            partition.leader.joining.answered(self.producer.id, joining, has_joined=has_joined)
            if not has_joined:
                refusals[topic_partition] = Refusal(error_for_producer(code, self.call.version))
        return refusals


def error_for_producer(code: ErrorCode, version: int) -> ErrorCode:
    """Maps an error to one on which producers of this version retry or abort."""
    match code:
        case (
            ErrorCode.NETWORK_EXCEPTION
            | ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            | ErrorCode.COORDINATOR_NOT_AVAILABLE
            | ErrorCode.NOT_COORDINATOR
        ):
            return ErrorCode.NOT_ENOUGH_REPLICAS
        case ErrorCode.CONCURRENT_TRANSACTIONS if version < ADDED_SINCE_VERSION:
            return ErrorCode.NOT_ENOUGH_REPLICAS
        case ErrorCode.TRANSACTION_ABORTABLE if version < ABORTABLE_SINCE_VERSION:
            return ErrorCode.INVALID_TXN_STATE
        case _:
            return code
