"""UnregisterBroker: removes the registration of a broker that was decommissioned."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.unregister_broker import UnregisterBrokerResponse

if TYPE_CHECKING:
    from pykbroker.apis.node import Call
    from pykbroker_protocol.errors import Refusal
    from pykbroker_protocol.messages.unregister_broker import UnregisterBrokerRequest


async def handle(request: UnregisterBrokerRequest, call: Call) -> UnregisterBrokerResponse:
    refusal = await call.node.controller.unregister_broker(request.broker_id)
    if refusal is not None:
        return UnregisterBrokerResponse(error_code=refusal.code, error_message=refusal.message)
    return UnregisterBrokerResponse(error_code=ErrorCode.NONE, error_message=None)


def failed(
    _request: UnregisterBrokerRequest, refusal: Refusal, _call: Call
) -> UnregisterBrokerResponse:
    return UnregisterBrokerResponse(error_code=refusal.code, error_message="")
