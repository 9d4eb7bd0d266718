"""CreateDelegationToken: creates a delegation token.

Served versions: 1-3
     1  first version of Apache Kafka 4 (KIP-48)
     2  flexible
     3  tokens for another owner (KIP-373)
Limits: Connections are not authenticated: requests get DELEGATION_TOKEN_REQUEST_NOT_ALLOWED.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker_protocol.api_keys import ApiKey
from pykbroker_protocol.message import (
    Message,
    array,
    int16,
    int32,
    int64,
    octets,
    string,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


class CreatableRenewers(Message):
    principal_type: str = string("0+")
    principal_name: str = string("0+")


class CreateDelegationTokenRequest(
    Message, api=ApiKey.CREATE_DELEGATION_TOKEN, versions="1-3", flexible="2+"
):
    owner_principal_type: str | None = string("3+", nullable="3+", default="")
    owner_principal_name: str | None = string("3+", nullable="3+", default="")
    renewers: Sequence[CreatableRenewers] = array(CreatableRenewers, "0+")
    max_lifetime_ms: int = int64("0+")


class CreateDelegationTokenResponse(
    Message, api=ApiKey.CREATE_DELEGATION_TOKEN, versions="1-3", flexible="2+"
):
    error_code: int = int16("0+")
    principal_type: str = string("0+")
    principal_name: str = string("0+")
    token_requester_principal_type: str = string("3+", default="")
    token_requester_principal_name: str = string("3+", default="")
    issue_timestamp_ms: int = int64("0+")
    expiry_timestamp_ms: int = int64("0+")
    max_timestamp_ms: int = int64("0+")
    token_id: str = string("0+")
    hmac: bytes = octets("0+")
    throttle_time_ms: int = int32("0+", default=0)
