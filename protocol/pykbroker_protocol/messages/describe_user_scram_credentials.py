"""DescribeUserScramCredentials: returns the SCRAM credentials of users.

Served versions: 0
     0  first version, flexible (KIP-554)
Limits: The broker has no SASL authentication, so no user has credentials.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker_protocol.api_keys import ApiKey
from pykbroker_protocol.message import (
    Message,
    array,
    int8,
    int16,
    int32,
    string,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


class UserName(Message):
    name: str = string("0+")


class DescribeUserScramCredentialsRequest(
    Message, api=ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, versions="0", flexible="0+"
):
    users: Sequence[UserName] | None = array(UserName, "0+", nullable="0+")


class CredentialInfo(Message):
    mechanism: int = int8("0+")
    iterations: int = int32("0+")


class DescribeUserScramCredentialsResult(Message):
    user: str = string("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default="")
    credential_infos: Sequence[CredentialInfo] = array(CredentialInfo, "0+")


class DescribeUserScramCredentialsResponse(
    Message, api=ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, versions="0", flexible="0+"
):
    throttle_time_ms: int = int32("0+", default=0)
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default="")
    results: Sequence[DescribeUserScramCredentialsResult] = array(
        DescribeUserScramCredentialsResult, "0+"
    )
