"""DescribeUserScramCredentials: no user has credentials, because there is no SASL."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

if TYPE_CHECKING:
    from pykbroker.apis.node import Call
    from pykbroker_protocol.messages.describe_user_scram_credentials import (
        DescribeUserScramCredentialsRequest,
    )


def handle(
    request: DescribeUserScramCredentialsRequest, _call: Call
) -> DescribeUserScramCredentialsResponse:
    times = Counter(user.name for user in request.users or ())
    return DescribeUserScramCredentialsResponse(
        error_code=ErrorCode.NONE,
        error_message=None,
        results=[result(name, is_named_once=count == 1) for name, count in times.items()],
    )


def result(name: str, *, is_named_once: bool) -> DescribeUserScramCredentialsResult:
    code = ErrorCode.RESOURCE_NOT_FOUND if is_named_once else ErrorCode.DUPLICATE_RESOURCE
    return DescribeUserScramCredentialsResult(
        user=name, error_code=code, error_message=code.sentence, credential_infos=()
    )
