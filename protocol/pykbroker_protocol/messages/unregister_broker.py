"""UnregisterBroker: removes the registration of a broker.

Served versions: 0
     0  first version, flexible (KIP-631)
"""

from __future__ import annotations

from pykbroker_protocol.api_keys import ApiKey
from pykbroker_protocol.message import (
    Message,
    int16,
    int32,
    string,
)


class UnregisterBrokerRequest(Message, api=ApiKey.UNREGISTER_BROKER, versions="0", flexible="0+"):
    broker_id: int = int32("0+")


class UnregisterBrokerResponse(Message, api=ApiKey.UNREGISTER_BROKER, versions="0", flexible="0+"):
    throttle_time_ms: int = int32("0+", default=0)
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default="")
