"""DescribeDelegationToken: returns the delegation tokens of owners.

Served versions: 1-3
     1  first version of Apache Kafka 4 (KIP-48)
     2  flexible
     3  returns the requester of a token (KIP-373)
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


class DescribeDelegationTokenOwner(Message):
    principal_type: str = string("0+")
    principal_name: str = string("0+")


class DescribeDelegationTokenRequest(
    Message, api=ApiKey.DESCRIBE_DELEGATION_TOKEN, versions="1-3", flexible="2+"
):
    owners: Sequence[DescribeDelegationTokenOwner] | None = array(
        DescribeDelegationTokenOwner, "0+", nullable="0+"
    )


class DescribedDelegationTokenRenewer(Message):
    principal_type: str = string("0+")
    principal_name: str = string("0+")


class DescribedDelegationToken(Message):
    principal_type: str = string("0+")
    principal_name: str = string("0+")
    token_requester_principal_type: str = string("3+", default="")
    token_requester_principal_name: str = string("3+", default="")
    issue_timestamp: int = int64("0+")
    expiry_timestamp: int = int64("0+")
    max_timestamp: int = int64("0+")
    token_id: str = string("0+")
    hmac: bytes = octets("0+")
    renewers: Sequence[DescribedDelegationTokenRenewer] = array(
        DescribedDelegationTokenRenewer, "0+"
    )


class DescribeDelegationTokenResponse(
    Message, api=ApiKey.DESCRIBE_DELEGATION_TOKEN, versions="1-3", flexible="2+"
):
    error_code: int = int16("0+")
    tokens: Sequence[DescribedDelegationToken] = array(DescribedDelegationToken, "0+")
    throttle_time_ms: int = int32("0+", default=0)
