"""ExpireDelegationToken: rejected, because connections are not authenticated."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.apis.create_delegation_token import NO_TIME, NOT_OVER_PLAINTEXT
from pykbroker_protocol.messages.expire_delegation_token import ExpireDelegationTokenResponse

if TYPE_CHECKING:
    from pykbroker.apis.node import Call
    from pykbroker_protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest


def handle(_request: ExpireDelegationTokenRequest, _call: Call) -> ExpireDelegationTokenResponse:
    return ExpireDelegationTokenResponse(error_code=NOT_OVER_PLAINTEXT, expiry_timestamp_ms=NO_TIME)
