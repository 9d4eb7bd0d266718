"""InitProducerId: allocates a producer id or bumps the epoch of a transactional id.

Served versions: 0-5
     0  first version (KIP-98)
     1  responses precede throttling (KIP-219)
     2  flexible
     3  producer id and epoch of a producer that recovers from an error (KIP-360)
     4  can return PRODUCER_FENCED (KIP-588)
     5  can return TRANSACTION_ABORTABLE (KIP-890)
Limits: Version 6 (two-phase commit, KIP-939) is unstable in Apache Kafka and not served.
"""

from __future__ import annotations

from pykbroker_protocol.api_keys import ApiKey
from pykbroker_protocol.message import (
    Message,
    boolean,
    int16,
    int32,
    int64,
    string,
)


class InitProducerIdRequest(
    Message, api=ApiKey.INIT_PRODUCER_ID, versions="0-6", flexible="2+", latest_unstable=True
):
    transactional_id: str | None = string("0+", nullable="0+")
    transaction_timeout_ms: int = int32("0+")
    producer_id: int = int64("3+", default=-1)
    producer_epoch: int = int16("3+", default=-1)
    enable2_pc: bool = boolean("6+", default=False)
    keep_prepared_txn: bool = boolean("6+", default=False)


class InitProducerIdResponse(Message, api=ApiKey.INIT_PRODUCER_ID, versions="0-6", flexible="2+"):
    throttle_time_ms: int = int32("0+", default=0, ignorable=True)
    error_code: int = int16("0+")
    producer_id: int = int64("0+", default=-1)
    producer_epoch: int = int16("0+")
    ongoing_txn_producer_id: int = int64("6+", default=-1)
    ongoing_txn_producer_epoch: int = int16("6+", default=-1)
