"""AddPartitionsToTxn: adds partitions to a transaction.

Served versions: 0-5
     0  first version (KIP-98)
     1  same as 0
     2  can return PRODUCER_FENCED (KIP-588)
     3  flexible
     4  several transactions per request, verify_only; used by brokers only (KIP-890)
     5  can return TRANSACTION_ABORTABLE (KIP-890)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker_protocol.api_keys import ApiKey
from pykbroker_protocol.message import (
    INT32,
    Message,
    array,
    boolean,
    int16,
    int32,
    int64,
    string,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


class AddPartitionsToTxnTopic(Message):
    name: str = string("0+")
    partitions: Sequence[int] = array(INT32, "0+")


class AddPartitionsToTxnTransaction(Message):
    transactional_id: str = string("4+", default="")
    producer_id: int = int64("4+", default=0)
    producer_epoch: int = int16("4+", default=0)
    verify_only: bool = boolean("4+", default=False)
    topics: Sequence[AddPartitionsToTxnTopic] = array(AddPartitionsToTxnTopic, "4+", default=())


class AddPartitionsToTxnRequest(
    Message, api=ApiKey.ADD_PARTITIONS_TO_TXN, versions="0-5", flexible="3+"
):
    transactions: Sequence[AddPartitionsToTxnTransaction] = array(
        AddPartitionsToTxnTransaction, "4+", default=()
    )
    v3_and_below_transactional_id: str = string("0-3", default="")
    v3_and_below_producer_id: int = int64("0-3", default=0)
    v3_and_below_producer_epoch: int = int16("0-3", default=0)
    v3_and_below_topics: Sequence[AddPartitionsToTxnTopic] = array(
        AddPartitionsToTxnTopic, "0-3", default=()
    )


class AddPartitionsToTxnPartitionResult(Message):
    partition_index: int = int32("0+")
    partition_error_code: int = int16("0+")


class AddPartitionsToTxnTopicResult(Message):
    name: str = string("0+")
    results_by_partition: Sequence[AddPartitionsToTxnPartitionResult] = array(
        AddPartitionsToTxnPartitionResult, "0+"
    )


class AddPartitionsToTxnResult(Message):
    transactional_id: str = string("4+", default="")
    topic_results: Sequence[AddPartitionsToTxnTopicResult] = array(
        AddPartitionsToTxnTopicResult, "4+", default=()
    )


class AddPartitionsToTxnResponse(
    Message, api=ApiKey.ADD_PARTITIONS_TO_TXN, versions="0-5", flexible="3+"
):
    throttle_time_ms: int = int32("0+", default=0)
    error_code: int = int16("4+", default=0, ignorable=True)
    results_by_transaction: Sequence[AddPartitionsToTxnResult] = array(
        AddPartitionsToTxnResult, "4+", default=()
    )
    results_by_topic_v3_and_below: Sequence[AddPartitionsToTxnTopicResult] = array(
        AddPartitionsToTxnTopicResult, "0-3", default=()
    )
