"""Envelope: forwards the request of a client to the active controller.

Not served. Declared versions: 0
     0  first version, flexible (KIP-590)
Reason: Brokers send it to a controller; controllers serve it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker_protocol.api_keys import ApiKey
from pykbroker_protocol.message import (
    Message,
    int16,
    octets,
)

if TYPE_CHECKING:
    from pykbroker_protocol.compiler import Buffer


class EnvelopeRequest(Message, api=ApiKey.ENVELOPE, versions="0", flexible="0+"):
    request_data: Buffer = octets("0+")
    request_principal: Buffer | None = octets("0+", nullable="0+")
    client_host_address: Buffer = octets("0+")


class EnvelopeResponse(Message, api=ApiKey.ENVELOPE, versions="0", flexible="0+"):
    response_data: Buffer | None = octets("0+", nullable="0+", default=None)
    error_code: int = int16("0+")
