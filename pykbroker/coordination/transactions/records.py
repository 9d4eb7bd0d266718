"""Encodes transactional ids as records of `__transaction_state`, like Apache Kafka."""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

from pykbroker.coordination.outcome import Write
from pykbroker.coordination.transactions.outcome import TopicPartition
from pykbroker.coordination.transactions.states import NUMBERS, STATES, TransactionState
from pykbroker.coordination.transactions.transaction import Transaction
from pykbroker_protocol.internal_topics.transactions import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

TAGS_SINCE_TRANSACTION_VERSION = 1


def write_of(transaction: Transaction, transaction_version: int) -> Write:
    key = TransactionLogKey(transactional_id=transaction.transactional_id)
    if transaction_version < TAGS_SINCE_TRANSACTION_VERSION:
        return Write(key, plain_value(transaction), 0)
    return Write(key, tagged_value(transaction), 1)


def tombstone_of(transactional_id: str) -> Write:
    return Write(TransactionLogKey(transactional_id=transactional_id), None)


def tagged_value(transaction: Transaction) -> TransactionLogValue:
    return TransactionLogValue(
        producer_id=transaction.producer_id,
        previous_producer_id=transaction.previous_producer_id,
        next_producer_id=transaction.next_producer_id,
        producer_epoch=transaction.producer_epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=NUMBERS[transaction.state],
        transaction_partitions=partitions_of(transaction),
        transaction_last_update_timestamp_ms=transaction.updated_ms,
        transaction_start_timestamp_ms=transaction.started_ms,
        client_transaction_version=transaction.client_version,
    )


def plain_value(transaction: Transaction) -> TransactionLogValue:
    """Encodes version 0, for releases without transaction versions, which cannot read tags."""
    return TransactionLogValue(
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=NUMBERS[transaction.state],
        transaction_partitions=partitions_of(transaction),
        transaction_last_update_timestamp_ms=transaction.updated_ms,
        transaction_start_timestamp_ms=transaction.started_ms,
    )


def partitions_of(transaction: Transaction) -> list[PartitionsSchema] | None:
    """Returns None for an empty transactional id and an empty list for a complete transaction."""
    if transaction.state is TransactionState.EMPTY:
        return None
    return [
        PartitionsSchema(topic=topic, partition_ids=partitions)
        for topic, partitions in by_topic(transaction.partitions)
    ]


def by_topic(topic_partitions: Iterable[TopicPartition]) -> list[tuple[str, list[int]]]:
    return [
        (topic, [it.partition for it in group])
        for topic, group in groupby(sorted(topic_partitions), key=itemgetter(0))
    ]


def transaction_of(key: TransactionLogKey, value: TransactionLogValue) -> Transaction:
    return Transaction(
        transactional_id=key.transactional_id,
        state=STATES[value.transaction_status],
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        timeout_ms=value.transaction_timeout_ms,
        partitions=frozenset(
            TopicPartition(it.topic, partition)
            for it in value.transaction_partitions or ()
            for partition in it.partition_ids
        ),
        started_ms=value.transaction_start_timestamp_ms,
        updated_ms=value.transaction_last_update_timestamp_ms,
        client_version=value.client_transaction_version,
    )
