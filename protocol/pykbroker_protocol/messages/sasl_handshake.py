"""SaslHandshake: agree on a SASL mechanism."""

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
