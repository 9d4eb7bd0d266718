"""ExpireDelegationToken: changes the expiry time of a delegation token.

Served versions: 1-2
     1  first version of Apache Kafka 4 (KIP-48)
     2  flexible
Limits: Connections are not authenticated: requests get DELEGATION_TOKEN_REQUEST_NOT_ALLOWED.
"""

from __future__ import annotations

from pykbroker_protocol.api_keys import ApiKey
from pykbroker_protocol.message import (
    Message,
    int16,
    int32,
    int64,
    octets,
)


class ExpireDelegationTokenRequest(
    Message, api=ApiKey.EXPIRE_DELEGATION_TOKEN, versions="1-2", flexible="2+"
):
    hmac: bytes = octets("0+")
    expiry_time_period_ms: int = int64("0+")


class ExpireDelegationTokenResponse(
    Message, api=ApiKey.EXPIRE_DELEGATION_TOKEN, versions="1-2", flexible="2+"
):
    error_code: int = int16("0+")
    expiry_timestamp_ms: int = int64("0+")
    throttle_time_ms: int = int32("0+", default=0)
