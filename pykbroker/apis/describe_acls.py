"""DescribeAcls: nobody checks access here, so there is no rule to tell of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker_protocol.errors import ErrorCode, Refusal
from pykbroker_protocol.messages.describe_acls import DescribeAclsResponse

if TYPE_CHECKING:
    from pykbroker.apis.node import Call
    from pykbroker_protocol.messages.describe_acls import DescribeAclsRequest

NO_AUTHORIZER = Refusal(
    ErrorCode.SECURITY_DISABLED, "This broker has no authorizer: everybody may do everything."
)


def handle(_request: DescribeAclsRequest, _call: Call) -> DescribeAclsResponse:
    return DescribeAclsResponse(
        error_code=NO_AUTHORIZER.code, error_message=NO_AUTHORIZER.message, resources=()
    )
