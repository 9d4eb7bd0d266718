"""Requests of transactions to other brokers: to coordinators, and to leaders of partitions.

The leader of a partition adds it to a transaction at the coordinator (AddPartitionsToTxn). The
coordinator lets leaders write the markers of an ended transaction (WriteTxnMarkers).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from pykbroker.address import Address
from pykbroker.client.connection_pool import ConnectionPool
from pykbroker.client.errors import ApiError, ClientError, Disconnected, error_of
from pykbroker.coordination.transactions.add_partitions import result_for
from pykbroker.coordination.transactions.outcome import TopicPartition
from pykbroker.coordination.transactions.records import by_topic
from pykbroker.internal_topics import TRANSACTION_STATE, partition_of_name
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
)
from pykbroker_protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pykbroker.client.broker_connection import BrokerConnection
    from pykbroker.client.connection_options import ConnectionOptions
    from pykbroker.coordination.transactions.outcome import Markers
    from pykbroker.metadata.image import ClusterImage
    from pykbroker_protocol.message import Message
    from pykbroker_protocol.messages.add_partitions_to_txn import AddPartitionsToTxnTransaction

    Codes = dict[TopicPartition, ErrorCode]

JOIN_SECONDS: Final = 10.0
"""A produce request waits for it; producers retry, and have a longer timeout."""
MARKER_SECONDS: Final = 40.0
"""Leaders wait up to 30 s until a marker is replicated."""


class RemoteTransactions:
    """Sends to the inter-broker listeners of the brokers in the current metadata."""

    def __init__(
        self,
        image: Callable[[], ClusterImage],
        listener: str,
        options: ConnectionOptions,
    ) -> None:
        self._image = image
        self._listener = listener
        self._pool = ConnectionPool(options)

    async def add_partitions(
        self, request: AddPartitionsToTxnTransaction, *, version: int
    ) -> Message:
        """Returns the result of the coordinator, or one with an error for each partition."""
        coordinator = self._coordinator_of(request.transactional_id)
        if coordinator is None:
            return refused(request, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        try:
            connection = await self._connection_to(coordinator)
            response = await connection.request(
                AddPartitionsToTxnRequest(transactions=[request]),
                AddPartitionsToTxnResponse,
                version_max=version,
                timeout_seconds=JOIN_SECONDS,
            )
        except ApiError as failure:
            return refused(request, failure.code)
        except ClientError:
            return refused(request, ErrorCode.NETWORK_EXCEPTION)
        if response.error_code:
            return refused(request, error_of(response.error_code))
        codes = {
            TopicPartition(topic.name, it.partition_index): error_of(it.partition_error_code)
            if it.partition_error_code
            else ErrorCode.NONE
            for result in response.results_by_transaction
            if result.transactional_id == request.transactional_id
            for topic in result.topic_results
            for it in topic.results_by_partition
        }
        return result_for(request, lambda it: codes.get(it, ErrorCode.UNKNOWN_SERVER_ERROR))

    def _coordinator_of(self, transactional_id: str) -> int | None:
        """Returns the live leader of the partition of `__transaction_state`."""
        count = self._image().partition_count(TRANSACTION_STATE)
        if not count:
            return None
        index = partition_of_name(transactional_id, count)
        return self._leader_of(TopicPartition(TRANSACTION_STATE, index))

    def _leader_of(self, topic_partition: TopicPartition) -> int | None:
        image = self._image()
        topic = image.topics.get(topic_partition.topic)
        if topic is None or topic_partition.partition >= len(topic.partitions):
            return None
        leader = topic.partitions[topic_partition.partition].leader
        broker = image.brokers.get(leader)
        return None if broker is None or broker.fenced else leader

    async def write_markers(self, markers: Markers, partitions: Sequence[TopicPartition]) -> Codes:
        """Returns NONE for each partition whose marker is committed, and errors of the others."""
        codes: Codes = {}
        by_leader: dict[int, list[TopicPartition]] = {}
        for it in partitions:
            leader = self._leader_of(it)
            if leader is None:
                codes[it] = ErrorCode.LEADER_NOT_AVAILABLE
            else:
                by_leader.setdefault(leader, []).append(it)
        for written in await asyncio.gather(
            *(self._write(leader, markers, of_leader) for leader, of_leader in by_leader.items())
        ):
            codes |= written
        return codes

    async def _write(
        self, leader: int, markers: Markers, partitions: Sequence[TopicPartition]
    ) -> Codes:
        try:
            connection = await self._connection_to(leader)
            response = await connection.request(
                markers_request(markers, partitions),
                WriteTxnMarkersResponse,
                timeout_seconds=MARKER_SECONDS,
            )
        except ApiError as failure:
            return dict.fromkeys(partitions, failure.code)
        except ClientError:
            return dict.fromkeys(partitions, ErrorCode.NETWORK_EXCEPTION)
        found = {
            TopicPartition(topic.name, it.partition_index): error_of(it.error_code)
            if it.error_code
            else ErrorCode.NONE
            for marker in response.markers
            for topic in marker.topics
            for it in topic.partitions
        }
        return {it: found.get(it, ErrorCode.UNKNOWN_SERVER_ERROR) for it in partitions}

    async def _connection_to(self, broker_id: int) -> BrokerConnection:
        listener = self._listener
        addresses = {
            broker.id: Address(*broker.listeners[listener])
            for broker in self._image().brokers.values()
            if listener in broker.listeners
        }
        await self._pool.retain(list(addresses.values()))
        if broker_id not in addresses:
            raise Disconnected(f"broker {broker_id} has no listener {listener}")
        return await self._pool.connection_to(addresses[broker_id])

    async def close(self) -> None:
        await self._pool.close()


def refused(request: AddPartitionsToTxnTransaction, code: ErrorCode) -> Message:
    return result_for(request, lambda _: code)


def markers_request(
    markers: Markers, partitions: Sequence[TopicPartition]
) -> WriteTxnMarkersRequest:
    return WriteTxnMarkersRequest(
        markers=[
            WritableTxnMarker(
                producer_id=markers.producer_id,
                producer_epoch=markers.producer_epoch,
                transaction_result=markers.committed,
                topics=[
                    WritableTxnMarkerTopic(name=topic, partition_indexes=indexes)
                    for topic, indexes in by_topic(partitions)
                ],
                coordinator_epoch=markers.coordinator_epoch,
                transaction_version=markers.transaction_version,
            )
        ]
    )
