"""One partition of `__transaction_state`, and AddPartitionsToTxn as partition leaders use it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.coordination.transactions.outcome import TopicPartition
from pykbroker.coordination.transactions.records import by_topic
from pykbroker.coordination.transactions.registry import Transactions
from pykbroker.coordinators.coordinated_log import CoordinatedLog
from pykbroker.coordinators.records import record_types
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.internal_topics import transactions
from pykbroker_protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping, Sequence

    from pykbroker.clock import Clock
    from pykbroker.coordination.transactions.settings import TransactionSettings
    from pykbroker.coordinators.coordinated_log import Consequence, DecisionObserver, Preparation
    from pykbroker.partitions.partition import Partition
    from pykbroker_protocol.message import Message

    Verdicts = Mapping[TopicPartition, ErrorCode]

TRANSACTION_RECORDS = record_types(transactions)

VERIFYING_VERSION, ADDING_VERSION = 4, 5
"""The versions of AddPartitionsToTxn in which brokers verify and add partitions."""
CODES = {code.value: code for code in ErrorCode}


def new_transaction_log(
    partition: Partition,
    clock: Clock,
    settings: TransactionSettings,
    *,
    transaction_version: int,
    consequence: Consequence,
    observer: DecisionObserver | None,
    before_begin: Preparation[Transactions] | None,
) -> CoordinatedLog[Transactions]:
    state = Transactions(
        settings,
        coordinator_epoch=partition.leadership.leader_epoch,
        transaction_version=transaction_version,
    )
    return CoordinatedLog(
        partition,
        state,
        TRANSACTION_RECORDS,
        clock,
        consequence=consequence,
        observer=observer,
        before_begin=before_begin,
    )


def verification_request(
    transactional_id: str,
    producer_id: int,
    producer_epoch: int,
    topic_partitions: Sequence[TopicPartition],
    *,
    verify_only: bool,
) -> AddPartitionsToTxnTransaction:
    return AddPartitionsToTxnTransaction(
        transactional_id=transactional_id,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        verify_only=verify_only,
        topics=[
            AddPartitionsToTxnTopic(name=topic, partitions=partitions)
            for topic, partitions in by_topic(topic_partitions)
        ],
    )


async def verdicts_later(answer: Awaitable[Message]) -> Verdicts:
    return verdicts_of(await answer)


def verdicts_of(answer: Message) -> Verdicts:
    """As in Kafka, partition leaders return INVALID_PRODUCER_EPOCH instead of PRODUCER_FENCED."""
    assert isinstance(answer, AddPartitionsToTxnResult)
    return {
        TopicPartition(topic.name, it.partition_index): producer_error(
            CODES[it.partition_error_code]
        )
        for topic in answer.topic_results
        for it in topic.results_by_partition
    }


def producer_error(code: ErrorCode) -> ErrorCode:
    return ErrorCode.INVALID_PRODUCER_EPOCH if code is ErrorCode.PRODUCER_FENCED else code
