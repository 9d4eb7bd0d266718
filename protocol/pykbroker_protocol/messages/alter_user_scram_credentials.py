"""AlterUserScramCredentials: adds and removes SCRAM credentials.

Not served. Declared versions: 0
     0  first version, flexible (KIP-554)
Reason: The broker has no SASL authentication.
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
    octets,
    string,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


class ScramCredentialDeletion(Message):
    name: str = string("0+")
    mechanism: int = int8("0+")


class ScramCredentialUpsertion(Message):
    name: str = string("0+")
    mechanism: int = int8("0+")
    iterations: int = int32("0+")
    salt: bytes = octets("0+")
    salted_password: bytes = octets("0+")


class AlterUserScramCredentialsRequest(
    Message, api=ApiKey.ALTER_USER_SCRAM_CREDENTIALS, versions="0", flexible="0+"
):
    deletions: Sequence[ScramCredentialDeletion] = array(ScramCredentialDeletion, "0+")
    upsertions: Sequence[ScramCredentialUpsertion] = array(ScramCredentialUpsertion, "0+")


class AlterUserScramCredentialsResult(Message):
    user: str = string("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default="")


class AlterUserScramCredentialsResponse(
    Message, api=ApiKey.ALTER_USER_SCRAM_CREDENTIALS, versions="0", flexible="0+"
):
    throttle_time_ms: int = int32("0+", default=0)
    results: Sequence[AlterUserScramCredentialsResult] = array(
        AlterUserScramCredentialsResult, "0+"
    )
