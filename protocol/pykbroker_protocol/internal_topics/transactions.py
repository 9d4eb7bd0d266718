"""Records of `__transaction_state` for a transactional id."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker_protocol.message import (
    INT32,
    Message,
    array,
    int8,
    int16,
    int32,
    int64,
    string,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


class TransactionLogKey(Message, record_type=0, versions="0"):
    transactional_id: str = string("0")


class PartitionsSchema(Message):
    topic: str = string("0+")
    partition_ids: Sequence[int] = array(INT32, "0+")


class TransactionLogValue(Message, record_type=0, versions="0-1", flexible="1+"):
    producer_id: int = int64("0+")
    previous_producer_id: int = int64("1+", tag=0, default=-1)
    next_producer_id: int = int64("1+", tag=1, default=-1)
    producer_epoch: int = int16("0+")
    next_producer_epoch: int = int16("1+", tag=3, default=-1)
    transaction_timeout_ms: int = int32("0+")
    transaction_status: int = int8("0+")
    transaction_partitions: Sequence[PartitionsSchema] | None = array(
        PartitionsSchema, "0+", nullable="0+"
    )
    transaction_last_update_timestamp_ms: int = int64("0+")
    transaction_start_timestamp_ms: int = int64("0+")
    client_transaction_version: int = int16("1+", tag=2, default=0)
