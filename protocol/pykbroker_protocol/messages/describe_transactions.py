"""DescribeTransactions: returns the state of transactional ids.

Served versions: 0
     0  first version, flexible (KIP-664)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker_protocol.api_keys import ApiKey
from pykbroker_protocol.message import (
    INT32,
    STRING,
    Message,
    array,
    int16,
    int32,
    int64,
    string,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


class DescribeTransactionsRequest(
    Message, api=ApiKey.DESCRIBE_TRANSACTIONS, versions="0", flexible="0+"
):
    transactional_ids: Sequence[str] = array(STRING, "0+")


class TopicData(Message):
    topic: str = string("0+")
    partitions: Sequence[int] = array(INT32, "0+")


class TransactionState(Message):
    error_code: int = int16("0+")
    transactional_id: str = string("0+")
    transaction_state: str = string("0+")
    transaction_timeout_ms: int = int32("0+")
    transaction_start_time_ms: int = int64("0+")
    producer_id: int = int64("0+")
    producer_epoch: int = int16("0+")
    topics: Sequence[TopicData] = array(TopicData, "0+")


class DescribeTransactionsResponse(
    Message, api=ApiKey.DESCRIBE_TRANSACTIONS, versions="0", flexible="0+"
):
    throttle_time_ms: int = int32("0+", default=0)
    transaction_states: Sequence[TransactionState] = array(TransactionState, "0+")
