"""SaslAuthenticate: performs one step of a SASL exchange.

Not served. Declared versions: 0-2
     0  first version (KIP-152)
     1  session_lifetime_ms (KIP-368)
     2  flexible
Reason: The broker has no SASL authentication.
"""

from __future__ import annotations

from pykbroker_protocol.api_keys import ApiKey
from pykbroker_protocol.message import (
    Message,
    int16,
    int64,
    octets,
    string,
)


class SaslAuthenticateRequest(Message, api=ApiKey.SASL_AUTHENTICATE, versions="0-2", flexible="2+"):
    auth_bytes: bytes = octets("0+")


class SaslAuthenticateResponse(
    Message, api=ApiKey.SASL_AUTHENTICATE, versions="0-2", flexible="2+"
):
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default="")
    auth_bytes: bytes = octets("0+")
    session_lifetime_ms: int = int64("1+", default=0, ignorable=True)
