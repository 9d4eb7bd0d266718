"""SaslHandshake: selects a SASL mechanism.

Not served. Declared versions: 0-1
     0  first version (KIP-43)
     1  announces SaslAuthenticate requests (KIP-152)
Reason: The broker has no SASL authentication.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker_protocol.api_keys import ApiKey
from pykbroker_protocol.message import (
    STRING,
    Message,
    array,
    int16,
    string,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


class SaslHandshakeRequest(Message, api=ApiKey.SASL_HANDSHAKE, versions="0-1"):
    mechanism: str = string("0+")


class SaslHandshakeResponse(Message, api=ApiKey.SASL_HANDSHAKE, versions="0-1"):
    error_code: int = int16("0+")
    mechanisms: Sequence[str] = array(STRING, "0+")
