"""ListTransactions: lists the transactional ids of this coordinator.

Served versions: 0-2
     0  first version, flexible (KIP-664)
     1  duration_filter (KIP-994)
     2  transactional_id_pattern (KIP-1152)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker_protocol.api_keys import ApiKey
from pykbroker_protocol.message import (
    INT64,
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


class ListTransactionsRequest(Message, api=ApiKey.LIST_TRANSACTIONS, versions="0-2", flexible="0+"):
    state_filters: Sequence[str] = array(STRING, "0+")
    producer_id_filters: Sequence[int] = array(INT64, "0+")
    duration_filter: int = int64("1+", default=-1)
    transactional_id_pattern: str | None = string("2+", nullable="2+", default=None)


class TransactionState(Message):
    transactional_id: str = string("0+")
    producer_id: int = int64("0+")
    transaction_state: str = string("0+")


class ListTransactionsResponse(
    Message, api=ApiKey.LIST_TRANSACTIONS, versions="0-2", flexible="0+"
):
    throttle_time_ms: int = int32("0+", default=0)
    error_code: int = int16("0+")
    unknown_state_filters: Sequence[str] = array(STRING, "0+")
    transaction_states: Sequence[TransactionState] = array(TransactionState, "0+")
