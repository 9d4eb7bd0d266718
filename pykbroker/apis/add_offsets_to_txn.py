"""AddOffsetsToTxn: adds the offsets partition of a group to a transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.coordination.transactions.outcome import TopicPartition
from pykbroker.internal_topics import CONSUMER_OFFSETS, partition_of_name
from pykbroker_protocol.messages.add_offsets_to_txn import AddOffsetsToTxnResponse

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from pykbroker.apis.node import Call, Node
    from pykbroker_protocol.message import Message
    from pykbroker_protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest


def handle(request: AddOffsetsToTxnRequest, call: Call) -> Message | Awaitable[Message]:
    return call.node.transactions.decide(
        request.transactional_id,
        lambda transactions, ticket: transactions.add_offsets_to_txn(
            request,
            version=call.version,
            ticket=ticket,
            offsets_partition=offsets_partition(request.group_id, call.node),
            now_ms=call.node.clock.now_ms(),
        ),
        lambda code: AddOffsetsToTxnResponse(error_code=code),
    )


def offsets_partition(group_id: str, node: Node) -> TopicPartition:
    """Returns the offsets partition of a group, also if the topic is not created yet."""
    count = node.image.partition_count(CONSUMER_OFFSETS)
    count = count or node.settings.offsets_topic_num_partitions
    return TopicPartition(CONSUMER_OFFSETS, partition_of_name(group_id, count))
