"""DeleteAcls: rejected, because the broker has no authorizer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.apis.describe_acls import NO_AUTHORIZER
from pykbroker_protocol.messages.delete_acls import DeleteAclsFilterResult, DeleteAclsResponse

if TYPE_CHECKING:
    from pykbroker.apis.node import Call
    from pykbroker_protocol.errors import Refusal
    from pykbroker_protocol.messages.delete_acls import DeleteAclsRequest


def handle(request: DeleteAclsRequest, _call: Call) -> DeleteAclsResponse:
    refused = DeleteAclsFilterResult(
        error_code=NO_AUTHORIZER.code, error_message=NO_AUTHORIZER.message, matching_acls=()
    )
    return DeleteAclsResponse(filter_results=[refused for _ in request.filters])


def failed(request: DeleteAclsRequest, refusal: Refusal, _call: Call) -> DeleteAclsResponse:
    result = DeleteAclsFilterResult(
        error_code=refusal.code, error_message=refusal.message, matching_acls=()
    )
    return DeleteAclsResponse(filter_results=[result for _ in request.filters])
