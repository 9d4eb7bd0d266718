"""AllocateProducerIds: reserves a block of producer ids for a broker.

Not served. Declared versions: 0
     0  first version, flexible (KIP-730)
Reason: Brokers send it to a controller; controllers serve it.
"""

from __future__ import annotations

from pykbroker_protocol.api_keys import ApiKey
from pykbroker_protocol.message import (
    Message,
    int16,
    int32,
    int64,
)


class AllocateProducerIdsRequest(
    Message, api=ApiKey.ALLOCATE_PRODUCER_IDS, versions="0", flexible="0+"
):
    broker_id: int = int32("0+")
    broker_epoch: int = int64("0+", default=-1)


class AllocateProducerIdsResponse(
    Message, api=ApiKey.ALLOCATE_PRODUCER_IDS, versions="0", flexible="0+"
):
    throttle_time_ms: int = int32("0+", default=0)
    error_code: int = int16("0+")
    producer_id_start: int = int64("0+")
    producer_id_len: int = int32("0+")
