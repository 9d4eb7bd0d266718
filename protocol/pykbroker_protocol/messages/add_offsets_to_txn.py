"""AddOffsetsToTxn: adds the offsets partition of a group to a transaction.

Served versions: 0-4
     0  first version (KIP-98)
     1  same as 0
     2  can return PRODUCER_FENCED (KIP-588)
     3  flexible
     4  can return TRANSACTION_ABORTABLE (KIP-890)
"""

from __future__ import annotations

from pykbroker_protocol.api_keys import ApiKey
from pykbroker_protocol.message import (
    Message,
    int16,
    int32,
    int64,
    string,
)


class AddOffsetsToTxnRequest(Message, api=ApiKey.ADD_OFFSETS_TO_TXN, versions="0-4", flexible="3+"):
    transactional_id: str = string("0+")
    producer_id: int = int64("0+")
    producer_epoch: int = int16("0+")
    group_id: str = string("0+")


class AddOffsetsToTxnResponse(
    Message, api=ApiKey.ADD_OFFSETS_TO_TXN, versions="0-4", flexible="3+"
):
    throttle_time_ms: int = int32("0+", default=0)
    error_code: int = int16("0+")
