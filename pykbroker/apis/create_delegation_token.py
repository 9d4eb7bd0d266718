"""CreateDelegationToken: rejected, because connections are not authenticated."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.create_delegation_token import CreateDelegationTokenResponse

if TYPE_CHECKING:
    from pykbroker.apis.node import Call
    from pykbroker_protocol.messages.create_delegation_token import CreateDelegationTokenRequest

NOT_OVER_PLAINTEXT = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
NO_TIME = -1
REQUESTER_SINCE_VERSION = 3
ANONYMOUS = ("User", "ANONYMOUS")


def handle(request: CreateDelegationTokenRequest, call: Call) -> CreateDelegationTokenResponse:
    kind, name = owner(request)
    refused = CreateDelegationTokenResponse(
        error_code=NOT_OVER_PLAINTEXT,
        principal_type=kind,
        principal_name=name,
        issue_timestamp_ms=NO_TIME,
        expiry_timestamp_ms=NO_TIME,
        max_timestamp_ms=NO_TIME,
        token_id="",
        hmac=b"",
    )
    if call.version < REQUESTER_SINCE_VERSION:
        return refused
    kind, name = ANONYMOUS
    return refused.replace(token_requester_principal_type=kind, token_requester_principal_name=name)


def owner(request: CreateDelegationTokenRequest) -> tuple[str, str]:
    """Returns the owner in the request (KIP-373), otherwise the anonymous requester."""
    if not request.owner_principal_name:
        return ANONYMOUS
    return request.owner_principal_type or "", request.owner_principal_name
