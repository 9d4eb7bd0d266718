"""DescribeAcls: rejected, because the broker has no authorizer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker_protocol.errors import ErrorCode, Refusal
from pykbroker_protocol.messages.describe_acls import DescribeAclsResponse

if TYPE_CHECKING:
    from pykbroker.apis.node import Call
    from pykbroker_protocol.messages.describe_acls import DescribeAclsRequest

NO_AUTHORIZER = Refusal(
    ErrorCode.SECURITY_DISABLED, "This broker has no authorizer; all operations are allowed."
)


def handle(_request: DescribeAclsRequest, _call: Call) -> DescribeAclsResponse:
    return DescribeAclsResponse(
        error_code=NO_AUTHORIZER.code, error_message=NO_AUTHORIZER.message, resources=()
    )
