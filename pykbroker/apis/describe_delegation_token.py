"""DescribeDelegationToken: rejected, because connections are not authenticated."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.apis.create_delegation_token import NOT_OVER_PLAINTEXT
from pykbroker_protocol.messages.describe_delegation_token import DescribeDelegationTokenResponse

if TYPE_CHECKING:
    from pykbroker.apis.node import Call
    from pykbroker_protocol.messages.describe_delegation_token import (
        DescribeDelegationTokenRequest,
    )


def handle(
    _request: DescribeDelegationTokenRequest, _call: Call
) -> DescribeDelegationTokenResponse:
    return DescribeDelegationTokenResponse(error_code=NOT_OVER_PLAINTEXT, tokens=())
